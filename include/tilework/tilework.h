/* SPDX-License-Identifier: Apache-2.0 */
/* Tilework: deep-learning primitives. This header is the whole of libtilework. */
#ifndef TILEWORK_TILEWORK_H
#define TILEWORK_TILEWORK_H

#include <tilework/device.h>
#include <tilework/graph.h>
#include <tilework/plan.h>
#include <tilework/simple.h>
#include <tilework/status.h>
#include <tilework/tensor.h>

#endif
