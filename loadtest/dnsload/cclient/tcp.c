/* TCP: connections that send queries in turn, and for each truncated answer by UDP, one that repeats the query. */
#include "client.h"
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

enum { BUFFER = 2 + (1 << 16), RETRIES = 100 };
#define PAUSE (SECOND / 20) /* the pause before a new attempt after a failed connection */

struct connection {
    int socket; /* -1 while there is no connection */
    unsigned sent, answered, filled, unsent;
    uint64_t again, heard; /* times: from when to connect again; when bytes last came, or no query was outstanding */
    uint64_t slot;         /* the slot of the query that the connection repeats */
    uint8_t in[BUFFER], out[BUFFER];
};

static struct connection *connections;
static unsigned next_connection, retries;

void open_tcp(void) {
    retries = options.retry && !run.connections ? RETRIES : 0;
    connections = allocated(run.connections + retries + 1, sizeof *connections);
    for (unsigned i = 0; i < run.connections + retries; i++) connections[i].socket = -1;
}

static void open_connection(struct connection *at) {
    int on = 1;
    at->sent = at->answered = at->filled = at->unsent = 0;
    at->heard = run.now;
    at->socket = socket(run.server.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (at->socket < 0) fail("socket");
    setsockopt(at->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    bind_source(at->socket);
    if (!connect(at->socket, (struct sockaddr *)&run.server, run.server_size) || errno == EINPROGRESS) return;
    close(at->socket);
    at->socket = -1;
    at->again = run.now + PAUSE;
    seen.counts[CONNECTIONS_FAILED]++;
}

static void close_connection(struct connection *at, int early) {
    close(at->socket);
    at->socket = -1;
    at->again = run.now + (early ? PAUSE : 0);
    seen.counts[CONNECTIONS_FAILED] += (uint64_t)early;
}

static void flush(struct connection *at) {
    if (!at->unsent) return;
    ssize_t done = send(at->socket, at->out, at->unsent, MSG_NOSIGNAL);
    if (done <= 0) return; /* the socket is full, not connected yet, or reset; receive() notices a reset */
    at->unsent -= (unsigned)done;
    memmove(at->out, at->out + done, at->unsent);
}

/* Complete the next message to send, whose LENGTH bytes stand in OUT after two bytes for its length. */
static void frame(struct connection *at, unsigned length) {
    if (at->sent == at->answered) at->heard = run.now;
    at->out[at->unsent] = (uint8_t)(length >> 8);
    at->out[at->unsent + 1] = (uint8_t)length;
    at->unsent += 2 + length;
    at->sent++;
}

static int has_room(const struct connection *at, unsigned share) {
    return (!options.each || at->sent < options.each) && at->sent - at->answered < share && at->unsent + MESSAGE + 2 < BUFFER;
}

unsigned send_tcp(unsigned wanted) {
    unsigned taken = 0, share = run.stretches ? IDS : (unsigned)fmax(options.outstanding / run.connections, 1);
    for (unsigned tried = 0; tried < run.connections && taken < wanted; tried++) {
        struct connection *at = &connections[next_connection];
        next_connection = (next_connection + 1) % run.connections;
        if (at->socket < 0 && run.now >= at->again) open_connection(at);
        for (; at->socket >= 0 && taken < wanted && has_room(at, share); taken++)
            frame(at, take(at->out + at->unsent + 2)->length);
        if (at->socket >= 0) flush(at);
    }
    return taken;
}

static void take_answers(struct connection *at, int is_retry) {
    unsigned used = 0;
    while (at->filled - used >= 2 && at->filled - used >= 2 + number16(at->in + used)) {
        unsigned size = number16(at->in + used);
        const uint8_t *answer = at->in + used + 2;
        if (size < 12) seen.counts[UNEXPECTED]++;
        else if (number16(answer) >= IDS) seen.counts[MALFORMED_ANSWERED]++;
        else take_answer(is_retry ? at->slot : number16(answer), answer, size, 1);
        used += 2 + size;
        at->answered++;
    }
    at->filled -= used;
    memmove(at->in, at->in + used, at->filled);
}

static unsigned receive(struct connection *at, int is_retry) {
    flush(at);
    ssize_t length = recv(at->socket, at->in + at->filled, BUFFER - at->filled, 0);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (at->sent > at->answered && run.now > at->heard + run.patience) close_connection(at, 1);
        return 0;
    }
    if (length <= 0) {
        close_connection(at, at->sent > at->answered);
        return 1;
    }
    int on = 1; /* acknowledge the answer at once: the server may wait for that before it sends more (Nagle) */
    setsockopt(at->socket, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    at->heard = run.now = clock_ns();
    at->filled += (unsigned)length;
    take_answers(at, is_retry);
    if (is_retry ? at->answered : options.each && at->answered >= options.each) close_connection(at, 0);
    return 1;
}

static void begin_retry(struct connection *at, uint64_t slot) {
    const struct live *entry = &run.live[slot];
    if (!entry->waiting) return; /* the query was counted as lost meanwhile */
    open_connection(at);
    if (at->socket < 0) return; /* the query will be counted as lost */
    at->slot = slot;
    memcpy(at->out + 2, entry->query->bytes, entry->query->length);
    at->out[2] = (uint8_t)(id_of(slot) >> 8);
    at->out[3] = (uint8_t)id_of(slot);
    frame(at, entry->query->length);
}

unsigned receive_tcp(void) {
    unsigned got = 0;
    uint64_t slot;
    for (unsigned i = 0; i < run.connections + retries; i++) {
        struct connection *at = &connections[i];
        if (retries && at->socket < 0 && take_truncated(&slot)) begin_retry(at, slot);
        if (at->socket >= 0) got += receive(at, retries > 0);
    }
    return got;
}
