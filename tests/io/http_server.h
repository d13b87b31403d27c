/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server on a loopback port with one fault for each first folder of the path:
 * /good /cut /drip /norange /corrupt /missing /long /short /stall /redirect, then the file's path.
 */
#ifndef TW_TESTS_HTTP_SERVER_H
#define TW_TESTS_HTTP_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/io_support.h"

typedef struct http_server {
    int listener, port;
    pthread_t thread;
    atomic_int requests, resumed; /* how many came, and how many of them with a range */
    const uint8_t *content;       /* what is served at any path… */
    size_t n_content;
    const char *folder; /* …unless this is set: files below it */
} http_server;

static bool http_send(int peer, const void *data, size_t n)
{
    const char *at = data;
    while (n) {
        ssize_t sent = send(peer, at, n, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

static void http_head(int peer, int code, size_t n, size_t from, size_t total)
{
    char head[256], range[96] = "";
    if (code == 206) {
        snprintf(range, sizeof range, "Content-Range: bytes %zu-%zu/%zu\r\n", from, total - 1,
                 total);
    }
    snprintf(head, sizeof head,
             "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n", code, n, range);
    http_send(peer, head, strlen(head));
}

static bool http_is(const char *path, const char *fault)
{
    size_t n = strlen(fault);
    return strncmp(path + 1, fault, n) == 0 && path[n + 1] == '/';
}

/* What a client asked for. */
typedef struct http_request {
    char path[1024];
    bool ranged;
    size_t from;
} http_request;

static void http_redirect(const http_server *server, int peer)
{
    char head[160];
    snprintf(head, sizeof head,
             "HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:%d/good/x\r\n"
             "Content-Length: 0\r\nConnection: close\r\n\r\n",
             server->port);
    http_send(peer, head, strlen(head));
}

static void http_send_corrupt(int peer, const uint8_t *content, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    memcpy(copy, content, n);
    copy[n / 2] ^= 1;
    http_send(peer, copy, n);
    free(copy);
}

/* Sends n bytes of content, from where the request asks on, with the fault that its path names. */
static void http_answer(int peer, const http_request *request, const uint8_t *content, size_t n)
{
    static const char zeros[1000];
    const char *path = request->path;
    bool ranged = request->ranged && !http_is(path, "norange");
    size_t from = ranged ? request->from : 0;
    if (from > n || (ranged && from == n)) {
        http_head(peer, 416, 0, 0, 0);
        return;
    }
    if (http_is(path, "short")) n /= 2;
    size_t left = n - from, sent = left, extra = http_is(path, "long") ? sizeof zeros : 0;
    if (http_is(path, "cut") && !ranged) sent = left / 2;
    if (http_is(path, "drip")) sent = (left + 3) / 4;
    http_head(peer, ranged ? 206 : 200, left + extra, from, n);
    if (http_is(path, "stall")) {
        char byte;
        while (recv(peer, &byte, 1, 0) > 0) {
        } /* until the client gives up */
    } else if (http_is(path, "corrupt")) {
        http_send_corrupt(peer, content + from, left);
    } else {
        http_send(peer, content + from, sent);
        http_send(peer, zeros, extra);
    }
}

/* False: the client went away, or this is no request. */
static bool http_receive(int peer, http_request *request)
{
    char text[4096];
    size_t length = 0;
    do {
        ssize_t got = recv(peer, text + length, sizeof text - 1 - length, 0);
        if (got <= 0) return false;
        length += (size_t)got;
        text[length] = '\0';
    } while (!strstr(text, "\r\n\r\n") && length < sizeof text - 1);
    const char *range = strstr(text, "Range: bytes=");
    request->from = 0;
    request->ranged = range && sscanf(range, "Range: bytes=%zu-", &request->from) == 1;
    return sscanf(text, "GET %1023s", request->path) == 1;
}

static void http_serve(http_server *server, int peer)
{
    http_request request;
    char file[2048];
    if (!http_receive(peer, &request)) return;
    atomic_fetch_add(&server->requests, 1);
    if (request.ranged) atomic_fetch_add(&server->resumed, 1);
    const char *rest = strchr(request.path + 1, '/');
    snprintf(file, sizeof file, "%s%s", server->folder ? server->folder : "", rest ? rest : "");
    if (http_is(request.path, "missing") || (server->folder && !io_exists(file))) {
        http_head(peer, 404, 0, 0, 0);
    } else if (http_is(request.path, "redirect")) {
        http_redirect(server, peer);
    } else if (server->folder) {
        size_t n;
        uint8_t *content = io_read(file, &n);
        http_answer(peer, &request, content, n);
        free(content);
    } else {
        http_answer(peer, &request, server->content, server->n_content);
    }
}

static void *http_run(void *arg)
{
    http_server *server = arg;
    for (;;) {
        int peer = accept(server->listener, NULL, NULL);
        if (peer < 0) return NULL;
        http_serve(server, peer);
        shutdown(peer, SHUT_WR);
        close(peer);
    }
}

/* A listening socket on a free port. */
static int http_listen(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(listen(listener, 16), 0);
    *port = ntohs(address.sin_port);
    return listener;
}

static void http_start(http_server *server)
{
    server->listener = http_listen(&server->port);
    assert_int_equal(pthread_create(&server->thread, NULL, http_run, server), 0);
}

static void http_stop(http_server *server)
{
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
}

#endif
