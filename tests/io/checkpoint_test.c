/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: round trips, checkpoints of other networks, damaged files, a full disk. */
#include "io/io_support.h"

#include <signal.h>
#include <sys/resource.h>

#include <tilework/train.h>

enum { N_WEIGHTS = 3, N_STATE = 4 };

/* A small network with its optimizer. */
typedef struct network {
    float conv[8 * 3 * 3 * 3], dense[10 * 8], bias[10];
    float m[10 * 8], v[10 * 8];
    int64_t counter;
    uint16_t scale[3];
    tw_named_array weights[N_WEIGHTS], state[N_STATE];
    tw_checkpoint checkpoint;
} network;

static tw_named_array entry(const char *name, tw_dtype dtype, int32_t rank, const int64_t *dims,
                            void *data)
{
    tw_named_array e = {.name = name, .array = {.dtype = dtype, .rank = rank, .data = data}};
    int64_t elements = 1;
    for (int32_t d = 0; d < rank; d++) elements *= e.array.dims[d] = dims[d];
    e.array.bytes = elements * tw_dtype_bits(dtype) / 8;
    return e;
}

static void make(network *n, uint64_t seed)
{
    static const tw_metadata params[] = {{"lr", "0.001"}, {"hidden", "8"}};
    memset(n, 0, sizeof *n);
    uint8_t *bytes = (uint8_t *)n;
    for (size_t i = 0; seed && i < offsetof(network, weights); i++)
        bytes[i] = (uint8_t)io_random(&seed);
    n->weights[0] = entry("conv.weight", TW_F32, 4, (int64_t[]){8, 3, 3, 3}, n->conv);
    n->weights[1] = entry("dense.weight", TW_F32, 2, (int64_t[]){10, 8}, n->dense);
    n->weights[2] = entry("dense.bias", TW_F32, 1, (int64_t[]){10}, n->bias);
    n->state[0] = entry("m.dense.weight", TW_F32, 2, (int64_t[]){10, 8}, n->m);
    n->state[1] = entry("v.dense.weight", TW_F32, 2, (int64_t[]){10, 8}, n->v);
    n->state[2] = entry("counter", TW_I64, 0, NULL, &n->counter);
    n->state[3] = entry("scale", TW_BF16, 1, (int64_t[]){3}, n->scale);
    n->checkpoint = (tw_checkpoint){.size = sizeof n->checkpoint,
                                    .network = "small-cnn",
                                    .n_weights = N_WEIGHTS,
                                    .weights = n->weights,
                                    .n_state = N_STATE,
                                    .state = n->state,
                                    .n_params = 2,
                                    .params = params};
}

static void check_same_values(const network *a, const network *b, bool state)
{
    assert_memory_equal(a->conv, b->conv, sizeof a->conv);
    assert_memory_equal(a->dense, b->dense, sizeof a->dense);
    assert_memory_equal(a->bias, b->bias, sizeof a->bias);
    if (!state) return;
    assert_memory_equal(a->m, b->m, sizeof a->m);
    assert_memory_equal(a->v, b->v, sizeof a->v);
    assert_int_equal(a->counter, b->counter);
    assert_memory_equal(a->scale, b->scale, sizeof a->scale);
}

static void test_round_trip(void **state)
{
    (void)state;
    static network a, b, zero;
    make(&a, 1);
    make(&b, 0);
    make(&zero, 0);
    a.checkpoint.step = INT64_MAX;
    a.checkpoint.epoch = 7;
    a.checkpoint.seed = INT64_MIN;
    a.checkpoint.rng_offset = -1;
    const char *path = io_path("round");
    assert_ok(tw_checkpoint_save(path, &a.checkpoint));
    assert_ok(tw_checkpoint_load(path, 0, &b.checkpoint));
    check_same_values(&a, &b, true);
    assert_true(b.checkpoint.step == INT64_MAX && b.checkpoint.seed == INT64_MIN);
    assert_int_equal(b.checkpoint.epoch, 7);
    assert_int_equal(b.checkpoint.rng_offset, -1);
    /* Weights alone, as for inference. */
    make(&b, 0);
    b.checkpoint.n_state = 0;
    assert_ok(tw_checkpoint_load(path, 0, &b.checkpoint));
    check_same_values(&a, &b, false);
    assert_memory_equal(b.m, zero.m, sizeof b.m);
    /* Any reader of safetensors finds weights and hyper-parameters. */
    tw_tensors *t;
    tw_named_array found;
    assert_ok(tw_tensors_read(path, 0, &t));
    assert_ok(tw_tensors_find(t, "dense.weight", &found));
    assert_ok(tw_tensors_find(t, "optimizer.counter", &found));
    assert_string_equal(tw_tensors_metadata(t, "param.lr"), "0.001");
    assert_string_equal(tw_tensors_metadata(t, "network"), "small-cnn");
    tw_tensors_free(t);
}

/* Loading `want` fails with this sentence and changes nothing. */
static void check_refused(network *want, const char *path, const char *sentence)
{
    static network before;
    want->checkpoint.step = 55;
    memcpy(&before, want, sizeof before);
    assert_status(tw_checkpoint_load(path, 0, &want->checkpoint), TW_INVALID_ARGUMENT);
    assert_sentence(sentence);
    assert_memory_equal(&before, want, sizeof before);
}

static void test_other_network(void **state)
{
    (void)state;
    static network a, b;
    make(&a, 1);
    const char *path = io_path("other");
    assert_ok(tw_checkpoint_save(path, &a.checkpoint));
    make(&b, 2);
    b.checkpoint.network = "large-cnn";
    check_refused(&b, path, "checkpoint of another network: of 'small-cnn', not of 'large-cnn'");
    make(&b, 2);
    b.weights[2].name = "dense.offset";
    check_refused(&b, path, "it has no tensor 'dense.offset'");
    make(&b, 2);
    b.checkpoint.n_weights = 2;
    check_refused(&b, path, "its tensor 'dense.bias' is not one of the network's");
    make(&b, 2);
    b.weights[1].array.dims[0] = 8;
    b.weights[1].array.dims[1] = 10;
    check_refused(&b, path, "'dense.weight' is f32 [10, 8] in the file and f32 [8, 10] in the");
    make(&b, 2);
    b.weights[1].array.dtype = TW_I32;
    check_refused(&b, path, "f32 [10, 8] in the file and i32 [10, 8]");
    make(&b, 2);
    b.state[3].array.rank = 0;
    b.state[3].array.bytes = 2;
    check_refused(&b, path, "'optimizer.scale' is bf16 [3] in the file and bf16 []");
    make(&b, 2);
    b.weights[0].array.data = NULL;
    check_refused(&b, path, "no data");
}

static void write_plain(const char *path, int64_t n_pairs, const tw_metadata *pairs)
{
    assert_ok(tw_tensors_write(path, 0, NULL, n_pairs, pairs));
}

static void test_not_a_checkpoint(void **state)
{
    (void)state;
    tw_checkpoint want = {.network = "n"};
    const char *path = io_path("plain");
    tw_metadata pairs[] = {{"format", "tilework-checkpoint"},
                           {"version", "1"},
                           {"network", "n"},
                           {"step", "1"},
                           {"epoch", "2"},
                           {"seed", "3"},
                           {"rng_offset", "4"}};
    enum { N = sizeof pairs / sizeof *pairs };
    write_plain(path, N, pairs);
    assert_ok(tw_checkpoint_load(path, 0, &want));
    assert_int_equal(want.rng_offset, 4);
    for (int i = 0; i < N; i++) { /* each one is needed */
        tw_metadata less[N];
        memcpy(less, pairs, sizeof pairs);
        less[i].key = "x";
        write_plain(path, N, less);
        assert_status(tw_checkpoint_load(path, 0, &want), TW_BAD_FILE);
        assert_sentence("byte ");
    }
    static const char *const numbers[] = {"", "x", "1x", "99999999999999999999", "1.5"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        pairs[4].value = numbers[i];
        write_plain(path, N, pairs);
        assert_status(tw_checkpoint_load(path, 0, &want), TW_BAD_FILE);
        assert_sentence("'epoch'");
    }
    pairs[1].value = "2";
    write_plain(path, N, pairs);
    assert_status(tw_checkpoint_load(path, 0, &want), TW_VERSION_MISMATCH);
    assert_status(tw_checkpoint_load(io_path("none"), 0, &want), TW_NOT_FOUND);
}

static void test_hostile(void **state)
{
    (void)state;
    static network a, b, before;
    size_t n;
    make(&a, 1);
    assert_ok(tw_checkpoint_save(io_path("whole"), &a.checkpoint));
    uint8_t *bytes = io_read(io_path("whole"), &n);
    const char *path = io_path("part");
    make(&b, 2);
    memcpy(&before, &b, sizeof b);
    for (size_t length = 0; length < n; length += 1 + length / 40) {
        io_write(path, bytes, length);
        assert_status(tw_checkpoint_load(path, 0, &b.checkpoint), TW_BAD_FILE);
        assert_memory_equal(&b, &before, sizeof b);
    }
    for (uint64_t round = 0; round < 2000; round++) {
        uint64_t seed = round, bit = io_random(&seed) % 8000; /* mostly in the head */
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        io_write(path, bytes, n);
        tw_status status = tw_checkpoint_load(path, 0, &b.checkpoint);
        if (status == TW_OK)
            make(&b, 2);
        else
            assert_memory_equal(&b, &before, sizeof b);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
    }
    free(bytes);
}

static void test_disk_full(void **state)
{
    (void)state;
    static network a, b;
    struct rlimit old, small = {.rlim_cur = 2000};
    const char *path = io_path("full");
    make(&a, 1);
    assert_ok(tw_checkpoint_save(path, &a.checkpoint));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    make(&b, 2);
    tw_status status = tw_checkpoint_save(path, &b.checkpoint);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, TW_DISK_FULL);
    assert_ok(tw_checkpoint_load(path, 0, &b.checkpoint)); /* the previous one is whole */
    check_same_values(&a, &b, true);
}

static void test_arguments(void **state)
{
    (void)state;
    static network a;
    make(&a, 1);
    a.weights[0].name = "optimizer.x";
    assert_status(tw_checkpoint_save(io_path("x"), &a.checkpoint), TW_INVALID_ARGUMENT);
    make(&a, 1);
    a.checkpoint.network = NULL;
    assert_status(tw_checkpoint_save(io_path("x"), &a.checkpoint), TW_INVALID_ARGUMENT);
    make(&a, 1);
    a.weights[0].name = a.weights[1].name;
    assert_status(tw_checkpoint_save(io_path("x"), &a.checkpoint), TW_INVALID_ARGUMENT);
    assert_false(io_exists(io_path("x")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_other_network),
        cmocka_unit_test(test_not_a_checkpoint), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_disk_full),        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, io_make_folder, io_remove_folder);
}
