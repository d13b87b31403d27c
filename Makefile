# SPDX-License-Identifier: Apache-2.0
# The few commands that most people need; CMake does the work. Everything is made below build/.
BUILD := build
PREFIX ?= /usr/local
TW_CUDA ?= AUTO
TW_CROSS ?= AUTO
JOBS ?= $(shell nproc)

CONFIGURE = cmake -S . -B $(BUILD) -G Ninja -DTW_CUDA=$(TW_CUDA)
CTEST = ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

.PHONY: run build test test-neon install check clean help

run: build ## install what is missing, build, and train a small network on handwritten digits
	$(BUILD)/tw train cnn

build: ## install what is missing and build the libraries and build/tw
	@tools/setup run
	@$(CONFIGURE) -DTW_TESTS=OFF
	@cmake --build $(BUILD)

test: build-tests ## build and run every test; TW_CROSS=OFF leaves out NEON and Windows
	@$(CTEST)

test-neon: build-tests ## only the NEON kernels' tests, in qemu-user
	@$(CTEST) -L neon --no-tests=error

.PHONY: build-tests
build-tests:
	@tools/setup run test $(if $(filter OFF,$(TW_CROSS)),,cross)
	$(if $(filter OFF,$(TW_CROSS)),,@tools/setup arm64 $(BUILD)/arm64 || test $(TW_CROSS) = AUTO)
	@$(CONFIGURE) -DTW_TESTS=ON -DTW_CROSS=$(TW_CROSS)
	@cmake --build $(BUILD)

install: build ## copy libraries, headers and tw to PREFIX
	cmake --install $(BUILD) --prefix $(PREFIX)

check: ## the rules that a compiler cannot check: layers, sizes, exports, format
	@tools/check

clean: ## remove everything that was made
	rm -rf $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile
