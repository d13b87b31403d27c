/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tools/prove wants to know of the library and only a C program can tell, as lines of fields
 * separated by tabs: how long a training step is planned, whether running it allocates, and what
 * wrong calls answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tilework/tilework.h>

enum { BATCH = 64, PARAMETERS = 10, PLANS = 9, RUNS = 20, MAX_INPUTS = 64 };

/* ---- Counted allocations --------------------------------------------------------------------- */

static long hook_calls, hook_blocks, libc_calls;

static void *hook_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    size_t room = (bytes + least - 1) / least * least;
    hook_calls++;
    hook_blocks++;
    return aligned_alloc(least, room ? room : least);
}

static void hook_free(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    if (pointer) hook_blocks--;
    free(pointer);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* In front of the C library's, so that what goes past the hooks is counted too. */
enum { LIBC_IS_COUNTED = 1 };
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *pointer, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    libc_calls++;
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    libc_calls++;
    return __libc_calloc(n, bytes);
}

void *realloc(void *pointer, size_t bytes)
{
    libc_calls++;
    return __libc_realloc(pointer, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    libc_calls++;
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **pointer, size_t alignment, size_t bytes)
{
    libc_calls++;
    *pointer = __libc_memalign(alignment, bytes);
    return *pointer ? 0 : 12; /* ENOMEM */
}
#else
enum { LIBC_IS_COUNTED = 0 };
#endif

/* ---- The network of `tw train cnn` ----------------------------------------------------------- */

static const int64_t shapes[PARAMETERS][4] = {
    {32, 1, 3, 3}, {1, 32, 1, 1}, {64, 32, 3, 3}, {1, 64, 1, 1}, {64, 64, 3, 3},
    {1, 64, 1, 1}, {576, 64},     {1, 64},        {64, 10},      {1, 10}};
static const int32_t ranks[PARAMETERS] = {4, 4, 4, 4, 4, 4, 2, 2, 2, 2};

static void need(tw_status status)
{
    if (status == TW_OK) return;
    fprintf(stderr, "probe: %s: %s\n", tw_status_name(status), tw_last_error());
    exit(1);
}

static tw_tensor input(tw_graph *g, tw_dtype dtype, int32_t rank, const int64_t *dims)
{
    tw_tensor_desc desc = tw_desc(dtype, rank, dims);
    tw_tensor t;
    need(tw_graph_tensor(g, &desc, &t));
    return t;
}

static tw_tensor bias_relu(tw_graph *g, tw_tensor x, tw_tensor bias)
{
    tw_tensor sum = TW_NONE, y = TW_NONE;
    need(tw_graph_binary(g, TW_PW_ADD, x, bias, &sum));
    need(tw_graph_unary(g, TW_PW_RELU, sum, &y));
    return y;
}

static tw_tensor conv(tw_graph *g, tw_tensor x, const tw_tensor *w)
{
    tw_tensor y = TW_NONE;
    need(tw_graph_conv(g, x, w[0], NULL, &y));
    return bias_relu(g, y, w[1]);
}

static tw_tensor halve(tw_graph *g, tw_tensor x)
{
    tw_tensor y = TW_NONE;
    need(tw_graph_pool(g, x, &(tw_pool_attrs){.window = {2, 2}, .stride = {2, 2}}, &y, NULL));
    return y;
}

static tw_tensor network(tw_graph *g, tw_tensor x, const tw_tensor *w)
{
    tw_tensor flat = TW_NONE, hidden = TW_NONE, logits = TW_NONE, sum = TW_NONE;
    x = conv(g, halve(g, conv(g, halve(g, conv(g, x, w)), w + 2)), w + 4);
    need(tw_graph_reshape(g, x, 2, (int64_t[]){BATCH, 576}, &flat));
    need(tw_graph_matmul(g, flat, w[6], NULL, &hidden));
    need(tw_graph_matmul(g, bias_relu(g, hidden, w[7]), w[8], NULL, &logits));
    need(tw_graph_binary(g, TW_PW_ADD, logits, w[9], &sum));
    return sum;
}

static tw_graph *training_step(void)
{
    tw_graph *g;
    tw_tensor loss = TW_NONE, w[PARAMETERS], grad[PARAMETERS];
    need(tw_graph_create(&g));
    tw_tensor images = input(g, TW_F32, 4, (int64_t[]){BATCH, 1, 28, 28});
    tw_tensor labels = input(g, TW_I64, 1, (int64_t[]){BATCH});
    tw_tensor lr = input(g, TW_F32, 0, NULL), step = input(g, TW_I64, 0, NULL);
    for (int i = 0; i < PARAMETERS; i++) w[i] = input(g, TW_F32, ranks[i], shapes[i]);
    need(tw_graph_cross_entropy(g, network(g, images, w), labels, NULL, &loss, NULL));
    need(tw_graph_output(g, loss, NULL));
    need(tw_graph_backward(g, 1, &loss, PARAMETERS, w, NULL, grad, NULL));
    for (int i = 0; i < PARAMETERS; i++) {
        tw_tensor new_w = TW_NONE, new_m = TW_NONE, new_v = TW_NONE;
        tw_tensor m = input(g, TW_F32, ranks[i], shapes[i]);
        tw_tensor v = input(g, TW_F32, ranks[i], shapes[i]);
        need(tw_graph_adam(g, w[i], grad[i], m, v, lr, step, NULL, &new_w, &new_m, &new_v));
        need(tw_graph_donate(g, new_w, w[i]));
        need(tw_graph_donate(g, new_m, m));
        need(tw_graph_donate(g, new_v, v));
    }
    return g;
}

/* ---- Planning and running -------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_planning(const tw_graph *g)
{
    double took[PLANS], first;
    for (int i = 0; i < PLANS; i++) {
        tw_plan *plan;
        double start = seconds();
        need(tw_plan_create(g, NULL, &plan));
        took[i] = seconds() - start;
        tw_plan_free(plan);
    }
    first = took[0];
    qsort(took, PLANS, sizeof *took, ascending);
    printf("plan\t%.3f\t%.3f\n", first * 1e3, took[PLANS / 2] * 1e3);
}

static void count_allocations(const tw_graph *g)
{
    tw_plan *plan;
    tw_context *context;
    need(tw_plan_create(g, NULL, &plan));
    need(tw_context_create(&(tw_context_options){.threads = 2}, &context));
    tw_binding b[MAX_INPUTS];
    int32_t n = tw_plan_binding_count(plan);
    for (int32_t i = 0; i < n; i++) {
        tw_tensor_desc desc = {.size = sizeof desc};
        b[i].uid = tw_plan_binding_uid(plan, i);
        need(tw_graph_describe(g, (tw_tensor)b[i].uid, &desc));
        b[i].data = calloc(1, (size_t)tw_desc_bytes(&desc));
        if (desc.dtype == TW_I64 && desc.rank == 0) *(int64_t *)b[i].data = 1; /* Adam's step */
    }
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = tw_malloc((size_t)bytes);
    long hooks = hook_calls, libc = libc_calls;
    for (int i = 0; i < RUNS; i++) need(tw_run(plan, context, n, b, workspace, bytes));
    hooks = hook_calls - hooks;
    libc = libc_calls - libc;
    printf("run\t%d\t%ld\t%ld\n", RUNS, hooks, LIBC_IS_COUNTED ? libc : -1);
    for (int32_t i = 0; i < n; i++) free(b[i].data);
    tw_free(workspace);
    tw_plan_free(plan);
    tw_context_free(context);
}

/* ---- Wrong calls ----------------------------------------------------------------------------- */

static void answer(const char *call, tw_status status)
{
    printf("bad\t%s\t%s\t%s\n", call, tw_status_name(status),
           status == TW_OK ? "" : tw_last_error());
}

static void wrong_tensors(tw_graph *g)
{
    tw_tensor t = TW_NONE;
    tw_tensor_desc negative = tw_desc(TW_F32, 2, (int64_t[]){2, 3});
    negative.dims[1] = -3;
    answer("a negative size", tw_graph_tensor(g, &negative, &t));
    tw_tensor_desc rank = negative;
    rank.dims[1] = 3, rank.rank = 9;
    answer("rank 9", tw_graph_tensor(g, &rank, &t));
    tw_tensor_desc huge = tw_desc(TW_F32, 2, (int64_t[]){INT64_MAX / 2, 8});
    answer("more bytes than int64_t counts", tw_graph_tensor(g, &huge, &t));
    tw_tensor_desc dtype = tw_desc((tw_dtype)99, 1, (int64_t[]){4});
    answer("an unknown element type", tw_graph_tensor(g, &dtype, &t));
    tw_tensor_desc stride = tw_desc(TW_F32, 2, (int64_t[]){2, 3});
    stride.has_strides = true;
    stride.strides[0] = -3, stride.strides[1] = 1;
    answer("a negative stride", tw_graph_tensor(g, &stride, &t));
    answer("a description that is NULL", tw_graph_tensor(g, NULL, &t));
    answer("a graph that is NULL", tw_graph_tensor(NULL, &dtype, &t));
}

static void wrong_operations(tw_graph *g)
{
    tw_tensor y = TW_NONE, x = input(g, TW_F32, 4, (int64_t[]){2, 3, 8, 8});
    tw_tensor w = input(g, TW_F32, 4, (int64_t[]){4, 5, 3, 3});
    tw_tensor large = input(g, TW_F32, 4, (int64_t[]){4, 3, 11, 11});
    tw_tensor whole = input(g, TW_I32, 4, (int64_t[]){4, 3, 3, 3});
    tw_tensor a = input(g, TW_F32, 2, (int64_t[]){4, 5}),
              logits = input(g, TW_F32, 2, (int64_t[]){4, 10});
    tw_tensor labels = input(g, TW_F32, 1, (int64_t[]){4});
    answer("filters of 5 channels for 3", tw_graph_conv(g, x, w, NULL, &y));
    answer("a kernel larger than the padded input",
           tw_graph_conv(g, x, large, &(tw_conv_attrs){.pad_lo = {1, 1}, .pad_hi = {1, 1}}, &y));
    answer("i32 filters for f32 images", tw_graph_conv(g, x, whole, NULL, &y));
    answer("a negative stride of conv",
           tw_graph_conv(g, x, large, &(tw_conv_attrs){.stride = {-1, 1}}, &y));
    answer("matmul of 4x5 by 4x5", tw_graph_matmul(g, a, a, NULL, &y));
    answer("adding 4x5 to 4x10", tw_graph_binary(g, TW_PW_ADD, a, logits, &y));
    answer("f32 labels of the wrong shape",
           tw_graph_cross_entropy(g, logits, labels, NULL, &y, NULL));
    answer("a reshape to another size", tw_graph_reshape(g, a, 2, (int64_t[]){3, 7}, &y));
    answer("reducing dim 5 of 2", tw_graph_reduce(g, a, &(tw_reduce_attrs){.axes = 1 << 5}, &y));
    answer("a tensor number of no tensor", tw_graph_unary(g, TW_PW_RELU, 12345, &y));
    answer("an unknown pointwise mode", tw_graph_unary(g, (tw_pointwise_mode)9999, a, &y));
    answer("a result that is NULL", tw_graph_unary(g, TW_PW_RELU, a, NULL));
    tw_tensor sum = TW_NONE;
    need(tw_graph_binary(g, TW_PW_ADD, a, a, &sum));
    answer("output strides that overlap", tw_graph_output(g, sum, (int64_t[]){4, 1}));
    answer("donating memory of another size", tw_graph_donate(g, sum, logits));
}

static void wrong_runs(tw_graph *g, tw_tensor x, tw_tensor y)
{
    tw_plan *plan = NULL;
    tw_plan_options tight = {.has_workspace_limit = true, .workspace_limit = 64};
    answer("a workspace limit that no plan meets", tw_plan_create(g, &tight, &plan));
    answer("an unknown kernel",
           tw_plan_create(g, &(tw_plan_options){.kernel = "tw_gemm_packed_f33__avx512"}, &plan));
    answer("a plan that is NULL", tw_run(NULL, NULL, 0, NULL, NULL, 0));
    need(tw_plan_create(g, NULL, &plan));
    static float data[64 * 64], result[64 * 64];
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = tw_malloc((size_t)bytes + 64);
    tw_binding good[] = {{x, data}, {y, result}}, null[] = {{x, NULL}, {y, result}};
    tw_binding twice[] = {{x, data}, {x, data}}, other[] = {{x, data}, {y + 77, result}};
    tw_binding odd[] = {{x, (char *)data + 1}, {y, result}};
    answer("too small a workspace", tw_run(plan, NULL, 2, good, workspace, bytes - 1));
    answer("no workspace", tw_run(plan, NULL, 2, good, NULL, bytes));
    answer("a binding that is NULL", tw_run(plan, NULL, 2, null, workspace, bytes));
    answer("a binding given twice", tw_run(plan, NULL, 2, twice, workspace, bytes));
    answer("a binding of another tensor", tw_run(plan, NULL, 2, other, workspace, bytes));
    answer("a missing binding", tw_run(plan, NULL, 1, good, workspace, bytes));
    answer("a binding off its alignment", tw_run(plan, NULL, 2, odd, workspace, bytes));
    need(tw_run(plan, NULL, 2, good, workspace, bytes));
    tw_free(workspace);
    tw_plan_free(plan);
}

static void wrong_labels(void)
{
    tw_graph *g;
    tw_plan *plan;
    tw_tensor loss = TW_NONE;
    need(tw_graph_create(&g));
    tw_tensor logits = input(g, TW_F32, 2, (int64_t[]){2, 10});
    tw_tensor labels = input(g, TW_I64, 1, (int64_t[]){2});
    need(tw_graph_cross_entropy(g, logits, labels, NULL, &loss, NULL));
    need(tw_graph_output(g, loss, NULL));
    need(tw_plan_create(g, NULL, &plan));
    float zeros[20] = {0}, result;
    int64_t label[2] = {3, 17};
    tw_binding b[] = {{logits, zeros}, {labels, label}, {loss, &result}};
    int64_t bytes = tw_plan_workspace(plan);
    void *workspace = tw_malloc((size_t)bytes);
    tw_status status = tw_run(plan, NULL, 3, b, workspace, bytes);
    if (status == TW_OK && result != result)
        printf("bad\ta label of 17 among 10 classes\tNaN\tthe loss is NaN\n");
    else
        answer("a label of 17 among 10 classes", status);
    tw_free(workspace);
    tw_plan_free(plan);
    tw_graph_free(g);
}

static void wrong_calls(void)
{
    tw_graph *g, *h;
    tw_tensor sum = TW_NONE, y = TW_NONE;
    answer("nowhere to put a graph", tw_graph_create(NULL));
    need(tw_graph_create(&g));
    wrong_tensors(g);
    wrong_operations(g);
    tw_graph_free(g);
    need(tw_graph_create(&h)); /* two steps, so that a plan of it needs memory in between */
    tw_tensor x = input(h, TW_F32, 2, (int64_t[]){64, 64});
    need(tw_graph_matmul(h, x, x, NULL, &sum));
    need(tw_graph_matmul(h, sum, x, NULL, &y));
    need(tw_graph_output(h, y, NULL));
    wrong_runs(h, x, y);
    tw_graph_free(h);
    wrong_labels();
}

int main(void)
{
    tw_allocator hooks = {hook_allocate, hook_free, NULL};
    need(tw_set_allocator(&hooks));
    tw_graph *step = training_step();
    time_planning(step);
    count_allocations(step);
    tw_graph_free(step);
    wrong_calls();
    tw_plan_cache_clear();
    printf("left\t%ld\n", hook_blocks);
    return 0;
}
