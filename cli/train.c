/* SPDX-License-Identifier: Apache-2.0 */
/* tw train: the loop over epochs and batches, tests, checkpoints, Ctrl-C. */
#include "train.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "core/error.h"
#include "core/os.h"
#include "core/text.h"
#include "options.h"
#include "progress.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    if (interrupted) _Exit(EXIT_STOPPED); /* the second Ctrl-C does not wait */
    interrupted = 1;
}

/* ---- Set-up ---------------------------------------------------------------------------------- */

static bool show_download(void *user, const tw_progress *p)
{
    return progress_of_download(user, p) && !interrupted;
}

/* Before anything is downloaded. */
static tw_status check_data(const char *name)
{
    for (int32_t i = 0; i < tw_dataset_count(); i++) {
        tw_dataset_info info = {.size = sizeof info};
        TW_TRY(tw_dataset_describe(i, &info));
        if (strcmp(info.name, name) != 0) continue;
        TW_REQUIRE(
            info.kind == TW_DATASET_IMAGES && info.channels == 1 && info.height == 28 &&
                info.width == 28 && info.classes == 10,
            TW_INVALID_ARGUMENT,
            "--data %s: this network takes pictures of 1x28x28 in 10 classes (digits, mnist, "
            "fashion-mnist)",
            name);
    }
    return TW_OK;
}

static tw_status open_data(train_run *run)
{
    TW_TRY(check_data(run->settings.data));
    progress bar;
    progress_start(&bar, run->settings.data, "bytes", 0);
    tw_dataset_options options = {.size = sizeof options, .progress = show_download, .user = &bar};
    tw_status status = tw_dataset_open(run->settings.data, &options, &run->dataset);
    progress_end(&bar);
    TW_TRY(status);
    TW_TRY(tw_dataset_images(run->dataset, TW_SPLIT_TRAIN, &run->train));
    TW_TRY(tw_dataset_images(run->dataset, TW_SPLIT_TEST, &run->test));
    const tw_images *t = &run->train;
    TW_REQUIRE(t->count > 0 && run->test.count > 0, TW_BAD_FILE,
               "--data %s: %s has %lld training and %lld test pictures; both need one or more",
               run->settings.data, tw_dataset_folder(run->dataset), (long long)t->count,
               (long long)run->test.count);
    if (run->settings.batch > t->count) run->settings.batch = t->count;
    return TW_OK;
}

static tw_status make_plans(train_run *run)
{
    int64_t batch = run->settings.batch, rest = run->train.count % batch;
    int64_t test_rest = run->test.count % batch;
    TW_TRY(cnn_plan(&run->net, batch, true, &run->full));
    if (rest) TW_TRY(cnn_plan(&run->net, rest, true, &run->rest));
    if (run->test.count >= batch) TW_TRY(cnn_plan(&run->net, batch, false, &run->test_full));
    if (test_rest) TW_TRY(cnn_plan(&run->net, test_rest, false, &run->test_rest));
    run->logits = tw_malloc((size_t)batch * 10 * sizeof(float));
    size_t times = (size_t)tw_plan_step_count(run->full.plan) * sizeof(int64_t);
    run->step_time = tw_malloc(times);
    TW_REQUIRE(run->logits && run->step_time, TW_OUT_OF_MEMORY, "no memory for a batch's results");
    memset(run->step_time, 0, times);
    return TW_OK;
}

static tw_status make_network(train_run *run)
{
    train_settings *s = &run->settings;
    tw_context_options options = {.size = sizeof options, .threads = (int32_t)s->threads};
    TW_TRY(tw_context_create(&options, &run->context));
    TW_TRY(cnn_create(&run->net));
    TW_TRY(train_initialise(&run->net, s->seed));
    if (s->resume) TW_TRY(train_load(run, s->resume));
    if (!s->batch) s->batch = 64;
    if (s->lr < 0) s->lr = 1e-3;
    if (!s->data) s->data = "digits";
    return TW_OK;
}

static tw_status set_up(train_run *run)
{
    const train_settings *s = &run->settings;
    TW_TRY(open_data(run));
    TW_TRY(make_plans(run));
    tw_batches_options order = {.size = sizeof order,
                                .batch = s->batch,
                                .shuffle = true,
                                .seed = s->seed,
                                .epoch = run->epoch,
                                .step = run->step};
    return tw_batches_create(&run->train, &order, &run->batches);
}

static void tear_down(train_run *run)
{
    tw_batches_free(run->batches);
    network_plan_free(&run->full);
    network_plan_free(&run->rest);
    network_plan_free(&run->test_full);
    network_plan_free(&run->test_rest);
    network_free(&run->net);
    tw_dataset_free(run->dataset);
    tw_context_free(run->context);
    tw_free(run->logits);
    tw_free(run->step_time);
}

/* ---- Testing --------------------------------------------------------------------------------- */

/* Mean cross-entropy of a batch, for the report. */
static double mean_loss(const tw_batch *batch, const float *logits)
{
    double sum = 0;
    for (int64_t i = 0; i < batch->count; i++, logits += 10) {
        double largest = (double)logits[0], total = 0;
        for (int k = 1; k < 10; k++) largest = fmax(largest, (double)logits[k]);
        for (int k = 0; k < 10; k++) total += exp((double)logits[k] - largest);
        sum += largest + log(total) - (double)logits[batch->labels[i]];
    }
    return sum / (double)batch->count;
}

static tw_status test_batches(train_run *run, tw_batches *batches, tw_metrics *metrics)
{
    for (int64_t i = 0; i < tw_batches_steps(batches); i++) {
        tw_batch batch = {.size = sizeof batch};
        TW_TRY(tw_batches_next(batches, &batch));
        const network_plan *plan =
            batch.count == run->settings.batch ? &run->test_full : &run->test_rest;
        TW_TRY(cnn_forward(&run->net, plan, run->context, batch.pixels, run->logits));
        double loss = mean_loss(&batch, run->logits);
        TW_TRY(tw_metrics_add(metrics, loss, batch.count, 10, run->logits, batch.labels));
    }
    return TW_OK;
}

static tw_status test(train_run *run)
{
    tw_batches_options options = {.size = sizeof options, .batch = run->settings.batch};
    tw_batches *batches;
    tw_metrics metrics = {.size = sizeof metrics};
    TW_TRY(tw_batches_create(&run->test, &options, &batches));
    tw_status status = test_batches(run, batches, &metrics);
    tw_batches_free(batches);
    TW_TRY(status);
    run->test_accuracy = tw_metrics_accuracy(&metrics);
    run->test_loss = tw_metrics_loss(&metrics);
    return TW_OK;
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Falls in a line to a fiftieth over the epochs asked for, so that the last steps settle. */
static float rate(const train_run *run)
{
    const train_settings *s = &run->settings;
    int64_t all = s->epochs * tw_batches_steps(run->batches);
    double left = 1 - (double)run->total_steps / (double)all;
    if (s->constant) left = 1;
    return (float)(s->lr * (left > 0.02 ? left : 0.02));
}

static tw_status train_one(train_run *run, tw_metrics *metrics)
{
    tw_batch batch = {.size = sizeof batch};
    TW_TRY(tw_batches_next(run->batches, &batch));
    bool whole = batch.count == run->settings.batch;
    train_batch io = {.x = batch.pixels,
                      .labels = batch.labels,
                      .lr = rate(run),
                      .step = run->total_steps + 1,
                      .logits = run->logits,
                      .nanoseconds = whole ? run->step_time : NULL};
    TW_TRY(cnn_train_step(&run->net, whole ? &run->full : &run->rest, run->context, &io));
    run->step++;
    run->total_steps++;
    run->images += batch.count;
    return tw_metrics_add(metrics, (double)io.loss, batch.count, 10, run->logits, batch.labels);
}

static tw_status train_epoch(train_run *run)
{
    char what[32], note[64];
    progress bar;
    tw_metrics metrics = {.size = sizeof metrics};
    int64_t steps = tw_batches_steps(run->batches), start = tw_os_nanoseconds();
    snprintf(what, sizeof what, "epoch %lld/%lld", (long long)run->epoch + 1,
             (long long)run->settings.epochs);
    progress_start(&bar, what, "images", run->train.count);
    while (run->step < steps && !interrupted) {
        TW_TRY(train_one(run, &metrics));
        snprintf(note, sizeof note, "loss %.4f", tw_metrics_loss(&metrics));
        int64_t done = run->step * run->settings.batch;
        progress_set(&bar, done < run->train.count ? done : run->train.count, note);
    }
    progress_end(&bar);
    double seconds = (double)(tw_os_nanoseconds() - start) * 1e-9;
    run->seconds += seconds;
    run->stopped = interrupted != 0;
    if (run->stopped) return TW_OK;
    run->epoch++;
    run->step = 0;
    TW_TRY(test(run));
    FILE *out = run->settings.json ? stderr : stdout;
    fprintf(out, "%s  loss %.4f  train %.2f %%  test %.2f %%  %.1f s\n", what,
            tw_metrics_loss(&metrics), 100 * tw_metrics_accuracy(&metrics),
            100 * run->test_accuracy, seconds);
    fflush(out);
    return TW_OK;
}

static tw_status train_all(train_run *run)
{
    const char *save = run->settings.save;
    while (run->epoch < run->settings.epochs && !run->stopped) {
        TW_TRY(train_epoch(run));
        if (save) TW_TRY(train_save(run, save));
    }
    return run->stopped || run->test_accuracy > 0 ? TW_OK : test(run);
}

/* ---- Prediction ------------------------------------------------------------------------------ */

/* A grey picture of any size becomes 28×28 by averaging; dark-on-light is turned around, as the
 * training digits are light on dark. */
static void to_digit(const tw_array *image, float *x)
{
    const uint8_t *pixels = image->data;
    int64_t h = image->dims[0], w = image->dims[1];
    double mean = 0;
    for (int64_t i = 0; i < 28 * 28; i++) {
        int64_t y0 = i / 28 * h / 28, y1 = (i / 28 + 1) * h / 28, x0 = i % 28 * w / 28,
                x1 = (i % 28 + 1) * w / 28;
        if (y1 == y0) y1++;
        if (x1 == x0) x1++;
        double sum = 0;
        for (int64_t r = y0; r < y1; r++)
            for (int64_t c = x0; c < x1; c++) sum += pixels[r * w + c];
        x[i] = (float)(sum / (255.0 * (double)((y1 - y0) * (x1 - x0))));
        mean += (double)x[i] / 784;
    }
    for (int64_t i = 0; i < 784 && mean > 0.5; i++) x[i] = 1 - x[i];
}

static tw_status read_picture(train_run *run, const char *path)
{
    tw_array image = {.size = sizeof image};
    TW_TRY(tw_image_read(path, 1, 0, &image));
    bool any = image.dims[0] > 0 && image.dims[1] > 0;
    if (any) to_digit(&image, run->picture);
    tw_array_free(&image);
    TW_REQUIRE(any, TW_INVALID_ARGUMENT, "%s is empty", path);
    return TW_OK;
}

static tw_status predict(train_run *run)
{
    float logits[10];
    network_plan one = {0};
    TW_TRY(cnn_plan(&run->net, 1, false, &one));
    tw_status status = cnn_forward(&run->net, &one, run->context, run->picture, logits);
    network_plan_free(&one);
    TW_TRY(status);
    int best = 0;
    for (int k = 1; k < 10; k++)
        if (logits[k] > logits[best]) best = k;
    const train_settings *s = &run->settings;
    bool table = s->json && !s->resume; /* standard output is the closing table alone */
    fprintf(table ? stderr : stdout, "%s: %d\n", s->predict, best);
    return TW_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

static tw_status run_training(train_run *run)
{
    const train_settings *s = &run->settings;
    if (s->predict) TW_TRY(read_picture(run, s->predict)); /* complain before training */
    TW_TRY(make_network(run));
    if (s->predict && s->resume) return predict(run);
    TW_TRY(set_up(run));
    if (run->epoch >= s->epochs)
        fprintf(stderr, "tw train: %s has %lld epochs already; --epochs asks for no more\n",
                s->resume ? s->resume : "the run", (long long)run->epoch);
    TW_TRY(train_all(run));
    if (run->stopped) {
        if (s->save) TW_TRY(train_save(run, s->save));
        return tw_fail(TW_INTERRUPTED, "stopped in epoch %lld after %lld batches%s%s",
                       (long long)run->epoch + 1, (long long)run->step,
                       s->save ? "; --resume goes on from " : "; nothing was saved (--save FILE)",
                       s->save ? s->save : "");
    }
    train_report(run);
    return s->predict ? predict(run) : TW_OK;
}

int command_train(int argc, char **argv)
{
    train_run run = {.settings = {.epochs = 24, .seed = 1, .lr = -1}};
    train_settings *s = &run.settings;
    const option table[] = {
        {"epochs", OPTION_INT, &s->epochs, 0, 1e6, "N", "passes over the training images (24)"},
        {"batch", OPTION_INT, &s->batch, 1, MAX_BATCH, "N", "images in a step (64)"},
        {"constant", OPTION_FLAG, &s->constant, 0, 0, NULL,
         "keep the rate; it falls in a line else"},
        {"lr", OPTION_REAL, &s->lr, 0, MAX_RATE, "X", "learning rate of Adam (0.001)"},
        {"seed", OPTION_INT, &s->seed, 0, 9e18, "N",
         "of weights and order; equal seeds, equal bits (1)"},
        {"threads", OPTION_INT, &s->threads, 0, 1024, "N", "0: all CPUs; no effect on results (0)"},
        {"data", OPTION_TEXT, &s->data, 0, 0, "NAME",
         "digits (in the library), mnist, fashion-mnist"},
        {"save", OPTION_TEXT, &s->save, 0, 0, "FILE", "checkpoint after each epoch and on Ctrl-C"},
        {"resume", OPTION_TEXT, &s->resume, 0, 0, "FILE", "go on from a checkpoint"},
        {"predict", OPTION_TEXT, &s->predict, 0, 0, "IMAGE", "say which digit a picture shows"},
        {"json", OPTION_FLAG, &s->json, 0, 0, NULL, "the closing table as JSON"},
        {NULL, OPTION_FLAG, NULL, 0, 0, NULL, NULL}};
    const char *words[64];
    int n_words;
    if (options_wants_help(argc, argv)) {
        options_help(
            "train cnn [options]",
            "Trains a convolutional network on handwritten digits. With --resume and\n"
            "--predict it only looks at the picture. A resumed run keeps its seed, and its\n"
            "--batch, --lr and --data unless others are given.",
            table);
        return EXIT_OK;
    }
    if (argc > 64 || !options_parse(table, argc, argv, words, &n_words)) return EXIT_USAGE;
    if (n_words != 1 || strcmp(words[0], "cnn") != 0) {
        fprintf(stderr, "tw train: name the network to train: cnn%s%s\n", n_words ? ", not " : "",
                n_words ? words[0] : "");
        return EXIT_USAGE;
    }
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    tw_status status = run_training(&run);
    tear_down(&run);
    return status == TW_OK ? EXIT_OK : report_failure("train", status);
}
