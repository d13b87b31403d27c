/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/os.h"

#define PATTERN 0xA5

static void die(const char *what)
{
    fprintf(stderr, "test harness: %s\n", what);
    abort();
}

/* ---- Tensors -------------------------------------------------------------------------------- */

static size_t page_round(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* `bytes` of memory that ends at a guard page; its start is aligned to `alignment`. */
static void *guarded(size_t bytes, size_t alignment, void **map, size_t *map_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = page_round(bytes + alignment);
    *map_bytes = body + 2 * page;
    char *base = mmap(NULL, *map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) die("no memory");
    if (mprotect(base + page, body, PROT_READ | PROT_WRITE) != 0) die("mprotect failed");
    *map = base;
    char *end = base + page + body;
    return end - (bytes + alignment - 1) / alignment * alignment;
}

static int64_t span_elements(const tw_tensor_desc *desc)
{
    int64_t last = 0;
    for (int32_t d = 0; d < desc->rank; d++) {
        if (desc->dims[d] == 0) return 0;
        last += (desc->dims[d] - 1) * desc->strides[d];
    }
    return last + 1;
}

th_tensor th_make_like(const tw_tensor_desc *desc)
{
    th_tensor t = {.desc = *desc};
    if (!desc->has_strides) {
        int64_t stride = 1;
        for (int32_t d = desc->rank - 1; d >= 0; d--) {
            t.desc.strides[d] = stride;
            stride *= desc->dims[d] > 0 ? desc->dims[d] : 1;
        }
        t.desc.has_strides = true;
    }
    t.span = tw_dtype_bytes(desc->dtype, span_elements(&t.desc));
    int bits = tw_dtype_bits(desc->dtype);
    size_t alignment = bits < 8 ? 1 : (size_t)bits / 8;
    t.data = guarded((size_t)t.span, alignment, &t.map, &t.map_bytes);
    memset(t.data, PATTERN, (size_t)t.span);
    t.used = calloc((size_t)t.span + 1, 1);
    if (!t.used) die("no memory");
    int64_t n = th_elements(&t);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = th_offset(&t, i);
        if (bits < 8)
            t.used[offset * bits / 8] = 1;
        else
            memset(t.used + offset * (bits / 8), 1, (size_t)bits / 8);
    }
    return t;
}

th_tensor th_make(tw_dtype dtype, int32_t rank, const int64_t *dims)
{
    tw_tensor_desc desc = {.dtype = dtype, .rank = rank};
    for (int32_t d = 0; d < rank; d++) desc.dims[d] = dims[d];
    return th_make_like(&desc);
}

th_tensor th_make_strided(tw_dtype dtype, int32_t rank, const int64_t *dims, const int64_t *strides)
{
    tw_tensor_desc desc = {.dtype = dtype, .rank = rank, .has_strides = true};
    for (int32_t d = 0; d < rank; d++) {
        desc.dims[d] = dims[d];
        desc.strides[d] = strides[d];
    }
    return th_make_like(&desc);
}

void th_free(th_tensor *tensor)
{
    if (tensor->map) munmap(tensor->map, tensor->map_bytes);
    free(tensor->used);
    memset(tensor, 0, sizeof *tensor);
}

int64_t th_elements(const th_tensor *tensor)
{
    int64_t n = 1;
    for (int32_t d = 0; d < tensor->desc.rank; d++) n *= tensor->desc.dims[d];
    return n;
}

int64_t th_offset(const th_tensor *tensor, int64_t linear)
{
    int64_t offset = 0;
    for (int32_t d = tensor->desc.rank - 1; d >= 0; d--) {
        offset += linear % tensor->desc.dims[d] * tensor->desc.strides[d];
        linear /= tensor->desc.dims[d];
    }
    return offset;
}

double th_get(const th_tensor *tensor, int64_t linear)
{
    return tw_load(tensor->desc.dtype, tensor->data, th_offset(tensor, linear));
}

void th_set(th_tensor *tensor, int64_t linear, double value)
{
    tw_store(tensor->desc.dtype, tensor->data, th_offset(tensor, linear), value, 0);
}

bool th_guards_intact(const th_tensor *tensor)
{
    const unsigned char *bytes = tensor->data;
    for (int64_t i = 0; i < tensor->span; i++)
        if (!tensor->used[i] && bytes[i] != PATTERN) {
            fprintf(stderr, "byte %lld between elements was overwritten\n", (long long)i);
            return false;
        }
    return true;
}

uint64_t th_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double th_uniform(uint64_t *state) { return (double)(th_random(state) >> 11) * 0x1p-53; }

void th_fill_integers(th_tensor *tensor, uint64_t seed, int lo, int hi)
{
    uint64_t range = (uint64_t)(hi - lo) + 1;
    for (int64_t i = 0, n = th_elements(tensor); i < n; i++)
        th_set(tensor, i, lo + (double)(th_random(&seed) % range));
}

void th_fill_uniform(th_tensor *tensor, uint64_t seed, double lo, double hi)
{
    for (int64_t i = 0, n = th_elements(tensor); i < n; i++)
        th_set(tensor, i, lo + (hi - lo) * th_uniform(&seed));
}

void th_fill_value(th_tensor *tensor, double value)
{
    for (int64_t i = 0, n = th_elements(tensor); i < n; i++) th_set(tensor, i, value);
}

/* ---- Kernels -------------------------------------------------------------------------------- */

static bool runnable(const tw_kernel *kernel)
{
    return kernel->impl && kernel->isa <= tw_cpu_isa();
}

const tw_kernel *th_kernel(const char *name)
{
    for (int32_t f = 0; f < tw_n_families; f++)
        for (int32_t k = 0; k < tw_families[f]->n_kernels; k++)
            if (strcmp(tw_families[f]->kernels[k].name, name) == 0)
                return &tw_families[f]->kernels[k];
    return NULL;
}

int th_kernels(tw_op_kind kind, const tw_kernel **kernels, int max)
{
    int n = 0;
    const tw_family *family = tw_family_of(kind);
    for (int32_t k = 0; family && k < family->n_kernels && n < max; k++)
        if (family->kernels[k].kind == kind && runnable(&family->kernels[k]))
            kernels[n++] = &family->kernels[k];
    return n;
}

const tw_kernel *th_reference(tw_op_kind kind)
{
    const tw_family *family = tw_family_of(kind);
    for (int32_t k = 0; family && k < family->n_kernels; k++)
        if (family->kernels[k].kind == kind && family->kernels[k].reference)
            return &family->kernels[k];
    return NULL;
}

tw_status th_infer(const th_call *call, tw_attrs *attrs, tw_tensor_desc *desc)
{
    const tw_tensor_desc *in[8] = {0};
    bool wanted[4] = {0}, declared[4] = {0};
    for (int32_t i = 0; i < call->n_in; i++) in[i] = call->in[i] ? &call->in[i]->desc : NULL;
    for (int32_t i = 0; i < call->n_out; i++) {
        wanted[i] = declared[i] = call->out[i] != NULL;
        if (call->out[i])
            desc[i] = call->out[i]->desc;
        else
            memset(&desc[i], 0, sizeof desc[i]);
    }
    *attrs = call->attrs;
    tw_infer infer = {.info = tw_op_info_of(call->kind),
                      .attrs = attrs,
                      .n_in = call->n_in,
                      .n_out = call->n_out,
                      .in = in,
                      .wanted = wanted,
                      .declared = declared,
                      .out = desc};
    return infer.info->infer(&infer);
}

typedef struct setup {
    tw_attrs attrs;
    tw_tensor_desc desc[4];
    tw_view in[8], out[4];
    tw_problem problem;
} setup;

static tw_view view_of(const th_tensor *tensor)
{
    tw_view view = {0};
    if (!tensor) return view;
    view.dtype = tensor->desc.dtype;
    view.rank = tensor->desc.rank;
    memcpy(view.dims, tensor->desc.dims, sizeof view.dims);
    memcpy(view.strides, tensor->desc.strides, sizeof view.strides);
    view.alignment = tensor->desc.alignment;
    if (!view.alignment) view.alignment = (tw_dtype_bits(view.dtype) + 7) / 8;
    return view;
}

static void set_up(setup *s, const th_call *call)
{
    memset(s, 0, sizeof *s);
    if (th_infer(call, &s->attrs, s->desc) != TW_OK) die(tw_last_error());
    for (int32_t i = 0; i < call->n_in; i++) s->in[i] = view_of(call->in[i]);
    for (int32_t i = 0; i < call->n_out; i++) s->out[i] = view_of(call->out[i]);
    s->problem =
        (tw_problem){.info = tw_op_info_of(call->kind),
                     .attrs = &s->attrs,
                     .n_in = call->n_in,
                     .n_out = call->n_out,
                     .in = s->in,
                     .out = s->out,
                     .epilogue = call->epilogue,
                     .flags = call->flags,
                     .max_threads = 4,
                     .workspace_limit = call->has_limit ? call->workspace_limit : INT64_MAX};
}

const char *th_refuses(const tw_kernel *kernel, const th_call *call)
{
    setup s;
    set_up(&s, call);
    return kernel->impl->supports(&s.problem);
}

tw_status th_run(const tw_kernel *kernel, const th_call *call)
{
    setup s;
    set_up(&s, call);
    tw_arena arena = {0};
    tw_prepare prepare = {.arena = &arena};
    tw_status status = TW_OK;
    if (kernel->impl->prepare) status = kernel->impl->prepare(&s.problem, &prepare);
    if (status != TW_OK) goto out;
    if (prepare.workspace > s.problem.workspace_limit) die("more workspace than the limit");

    void *map, *in[8] = {0}, *result[4] = {0};
    size_t map_bytes;
    void *workspace = guarded((size_t)prepare.workspace, 64, &map, &map_bytes);
    memset(workspace, 0xFF, (size_t)prepare.workspace); /* NaN, so that stale reads are seen */
    for (int32_t i = 0; i < call->n_in; i++) in[i] = call->in[i] ? call->in[i]->data : NULL;
    for (int32_t i = 0; i < call->n_out; i++) result[i] = call->out[i] ? call->out[i]->data : NULL;
    if (call->epilogue) result[0] = NULL;
    tw_context *context = NULL;
    if (call->threads > 1) {
        tw_context_options options = {.size = sizeof options, .threads = call->threads};
        if (tw_context_create(&options, &context) != TW_OK) die(tw_last_error());
    }
    tw_launch launch = {.problem = &s.problem,
                        .state = prepare.state,
                        .in = in,
                        .out = result,
                        .loads = call->loads,
                        .stores = call->stores,
                        .workspace = workspace,
                        .context = context};
    status = kernel->impl->run(&launch);
    tw_context_free(context);
    munmap(map, map_bytes);
out:
    tw_arena_free(&arena);
    return status;
}
