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

/* Sends content from `from` on, with the fault that the path names. */
static void http_answer(http_server *server, int peer, const char *path, bool ranged, size_t from,
                        const uint8_t *content, size_t n)
{
    bool cut = http_is(path, "cut") && !ranged, drip = http_is(path, "drip");
    if (http_is(path, "missing")) {
        http_head(peer, 404, 0, 0, 0);
        return;
    }
    if (http_is(path, "redirect")) {
        char head[160];
        snprintf(head, sizeof head,
                 "HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:%d/good/x\r\n"
                 "Content-Length: 0\r\nConnection: close\r\n\r\n",
                 server->port);
        http_send(peer, head, strlen(head));
        return;
    }
    if (http_is(path, "norange")) ranged = false;
    if (!ranged) from = 0;
    if (from > n || (ranged && from == n)) {
        http_head(peer, 416, 0, 0, 0);
        return;
    }
    if (http_is(path, "short")) n /= 2;
    size_t left = n - from, sent = cut ? left / 2 : drip ? (left + 3) / 4 : left;
    size_t extra = http_is(path, "long") ? 1000 : 0;
    http_head(peer, ranged ? 206 : 200, left + extra, from, n);
    if (http_is(path, "stall")) {
        char byte;
        while (recv(peer, &byte, 1, 0) > 0) {
        } /* until the client gives up */
        return;
    }
    if (http_is(path, "corrupt") && left) {
        uint8_t *copy = malloc(left);
        memcpy(copy, content + from, left);
        copy[left / 2] ^= 1;
        http_send(peer, copy, left);
        free(copy);
        return;
    }
    http_send(peer, content + from, sent);
    static const char zeros[1000];
    if (extra) http_send(peer, zeros, extra);
}

static void http_serve(http_server *server, int peer)
{
    char request[4096], path[1024], file[2048];
    size_t length = 0, from = 0, n = server->n_content;
    while (length < sizeof request - 1) {
        ssize_t got = recv(peer, request + length, sizeof request - 1 - length, 0);
        if (got <= 0) return;
        length += (size_t)got;
        request[length] = '\0';
        if (strstr(request, "\r\n\r\n")) break;
    }
    if (sscanf(request, "GET %1023s", path) != 1) return;
    const char *range = strstr(request, "Range: bytes=");
    bool ranged = range && sscanf(range, "Range: bytes=%zu-", &from) == 1;
    atomic_fetch_add(&server->requests, 1);
    if (ranged) atomic_fetch_add(&server->resumed, 1);
    const char *rest = strchr(path + 1, '/');
    if (server->folder && rest) {
        snprintf(file, sizeof file, "%s%s", server->folder, rest);
        if (!io_exists(file)) {
            http_head(peer, 404, 0, 0, 0);
            return;
        }
        uint8_t *content = io_read(file, &n);
        http_answer(server, peer, path, ranged, from, content, n);
        free(content);
        return;
    }
    http_answer(server, peer, path, ranged, from, server->content, n);
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
