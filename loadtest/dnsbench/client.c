/* Sends DNS queries to a server on loopback as fast or as evenly as told, and checks every answer. Driven by client.py.

   usage: client QUERIES PORT SECONDS OUTSTANDING RATE CONNECTIONS EVERY
   QUERIES: records of query length (2 bytes), kind (1), expected rcode (1), length of the expected rdata (2), query, rdata.
   RATE 0 is saturated: OUTSTANDING queries are always under way; else so many queries a second, whatever the answers do.
   CONNECTIONS 0 is UDP; else so many TCP connections at a time, each made anew after PER_CONNECTION queries.
   Prints a line of JSON every EVERY seconds (0: none) and one at the end, the last with the histogram of latencies.
   It never sleeps: a thread that is woken late would count its own delay as the server's. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HIT, MISS, JUNK };
enum {
    BATCH = 64,
    IDS = 65535,        /* the ID after the last is for junk, whose answers are for nobody */
    MOST_LIVE = 65000,  /* so that no ID is used for two queries at a time */
    MESSAGE = 2048,     /* bytes of one query or answer */
    PER_CONNECTION = 100,
    MOST_CONNECTIONS = 100,
    BUFFER = 1 << 16,
    STEPS = 32,         /* of the histogram, to each power of two: 3 % */
    BUCKETS = 64 * STEPS,
};
#define SECOND UINT64_C(1000000000)
#define PATIENCE SECOND /* a query that isn't answered by then is lost */

struct query {
    const uint8_t *bytes, *rdata;
    uint16_t length, rdata_length;
    uint8_t kind, rcode;
};
struct live {
    const struct query *query; /* NULL: answered or lost */
    uint64_t due;              /* when it should have been sent, ns */
};
struct connection {
    int socket;
    unsigned sent, answered, filled, unsent;
    uint8_t in[BUFFER], out[BUFFER];
};

static struct query *queries;
static size_t query_count, next_query;
static struct live live[IDS];
static uint64_t head, tail; /* sequence numbers: the next to be sent, the oldest that may be under way */
static uint64_t under_way, sent, junk, hits, misses, wrong, lost, stray, resets;
static uint64_t longest_gap, own_gap, idle, last_answer;
static uint64_t histogram[BUCKETS];
static uint64_t started, now;
static int udp = -1;
static struct connection *connections;
static unsigned connection_count, next_connection;
static struct sockaddr_in server;

static void fail(const char *what) {
    fprintf(stderr, "client: %s: %s\n", what, errno ? strerror(errno) : "malformed");
    exit(1);
}

static uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static unsigned number16(const uint8_t *at) { return (unsigned)at[0] << 8 | at[1]; }

static void read_queries(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail(path);
    long size = ftell(file);
    rewind(file);
    uint8_t *all = malloc((size_t)size + 1);
    queries = malloc(((size_t)size / 6 + 1) * sizeof *queries);
    if (!all || !queries || fread(all, 1, (size_t)size, file) != (size_t)size) fail(path);
    fclose(file);
    errno = 0;
    for (uint8_t *at = all; at < all + size; query_count++) {
        struct query *query = &queries[query_count];
        *query = (struct query){at + 6, at + 6 + number16(at), (uint16_t)number16(at), (uint16_t)number16(at + 4), at[2], at[3]};
        at += 6 + query->length + query->rdata_length;
        if (at > all + size || query->length > MESSAGE || (query->kind != JUNK && query->length < 17)) fail(path);
    }
    if (!query_count) fail(path);
}

static void widen_buffer(int socket) {
    int bytes = 4 << 20; /* answers that arrive in a burst mustn't be lost here; the kernel gives what it allows */
    setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

static int connected(int kind) {
    int made = socket(AF_INET, kind, 0);
    if (made < 0) fail("socket");
    if (kind == SOCK_DGRAM) widen_buffer(made);
    if (connect(made, (struct sockaddr *)&server, sizeof server)) fail("connect");
    int on = 1;
    if (kind == SOCK_STREAM) setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(made, F_SETFL, O_NONBLOCK)) fail("fcntl");
    return made;
}

static void open_connection(struct connection *at) {
    at->sent = at->answered = at->filled = at->unsent = 0;
    at->socket = connected(SOCK_STREAM);
}

static void reopen(struct connection *at, int early) {
    close(at->socket);
    resets += (uint64_t)early;
    open_connection(at);
}

/* The latencies. */

static unsigned bucket(uint64_t ns) {
    if (ns < STEPS) return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns), shift = power - 5;
    return (power - 4) * STEPS + (unsigned)(ns >> shift) - STEPS;
}

static uint64_t top_of(unsigned number) {
    if (number < STEPS) return number;
    unsigned shift = number / STEPS - 1;
    return ((uint64_t)(number % STEPS + STEPS + 1) << shift) - 1;
}

/* One query out. */

static const struct query *take(uint8_t *into, uint64_t due) {
    const struct query *query = &queries[next_query];
    next_query = next_query + 1 == query_count ? 0 : next_query + 1;
    memcpy(into, query->bytes, query->length);
    if (query->kind == JUNK) {
        junk++;
        return query;
    }
    unsigned id = (unsigned)(head++ % IDS);
    into[0] = (uint8_t)(id >> 8);
    into[1] = (uint8_t)id;
    live[id] = (struct live){query, due};
    under_way++;
    sent++;
    return query;
}

/* One answer in. */

static int right(const struct query *query, const uint8_t *answer, size_t length) {
    if (length < query->length || !(answer[2] & 0x80) || number16(answer + 4) != 1) return 0;
    if (memcmp(answer + 12, query->bytes + 12, query->length - 12u)) return 0;
    if ((answer[3] & 15) != query->rcode) return 0;
    if (!query->rdata_length) return !number16(answer + 6);
    if (!number16(answer + 6)) return 0;
    size_t at = query->length;
    while (at < length && answer[at] && answer[at] < 0xC0) at += answer[at] + 1u;
    at += at < length && answer[at] ? 2 : 1;
    if (at + 10 + query->rdata_length > length || number16(answer + at + 8) != query->rdata_length) return 0;
    return !memcmp(answer + at + 10, query->rdata, query->rdata_length);
}

static void take_answer(const uint8_t *answer, size_t length) {
    unsigned id = length >= 12 ? number16(answer) : IDS;
    if (id == IDS) return;
    struct live *entry = &live[id];
    if (!entry->query) {
        stray++;
        return;
    }
    if (!right(entry->query, answer, length)) wrong++;
    else if (entry->query->kind == HIT) hits++;
    else misses++;
    histogram[bucket(now - entry->due)]++;
    if (now - last_answer > longest_gap) longest_gap = now - last_answer;
    last_answer = now;
    entry->query = NULL;
    under_way--;
}

static void forget_lost(uint64_t patience) {
    for (; tail < head; tail++) {
        struct live *oldest = &live[tail % IDS];
        if (!oldest->query) continue;
        if (now < oldest->due + patience) return;
        oldest->query = NULL;
        under_way--;
        lost++;
    }
}

/* UDP: batches. */

static unsigned send_udp(unsigned count, uint64_t due, uint64_t step) {
    static uint8_t messages[BATCH][MESSAGE];
    static struct iovec parts[BATCH];
    static struct mmsghdr batch[BATCH];
    for (unsigned i = 0; i < count; i++) {
        parts[i] = (struct iovec){messages[i], take(messages[i], due + i * step)->length};
        batch[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    for (unsigned done = 0; done < count;) {
        int some = sendmmsg(udp, batch + done, count - done, 0);
        if (some > 0) done += (unsigned)some;
        else if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED && errno != ENOBUFS) fail("sendmmsg");
        else if (clock_ns() > now + PATIENCE) break; /* what can't be sent is lost */
    }
    return count;
}

static unsigned receive_udp(void) {
    static uint8_t messages[BATCH][MESSAGE];
    static struct iovec parts[BATCH];
    static struct mmsghdr batch[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){messages[i], MESSAGE};
        batch[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int count = recvmmsg(udp, batch, BATCH, MSG_DONTWAIT, NULL);
    if (count <= 0) return 0;
    now = clock_ns();
    for (int i = 0; i < count; i++) take_answer(messages[i], batch[i].msg_len);
    return (unsigned)count;
}

/* TCP: connections in turn, each with its share of what is under way. */

static void flush(struct connection *at) {
    if (!at->unsent) return;
    ssize_t done = send(at->socket, at->out, at->unsent, MSG_NOSIGNAL);
    if (done <= 0) return; /* full for now; or reset, which receiving finds too */
    at->unsent -= (unsigned)done;
    memmove(at->out, at->out + done, at->unsent);
}

static unsigned send_tcp(unsigned count, unsigned share, uint64_t due, uint64_t step) {
    unsigned taken = 0;
    for (unsigned tried = 0; tried < connection_count && taken < count; tried++) {
        struct connection *at = &connections[next_connection];
        next_connection = (next_connection + 1) % connection_count;
        while (taken < count && at->sent < PER_CONNECTION && at->sent - at->answered < share &&
               at->unsent + MESSAGE + 2 < BUFFER) {
            uint16_t length = take(at->out + at->unsent + 2, due + taken++ * step)->length;
            at->out[at->unsent] = (uint8_t)(length >> 8);
            at->out[at->unsent + 1] = (uint8_t)length;
            at->unsent += 2u + length;
            at->sent++;
        }
        flush(at);
    }
    return taken;
}

static unsigned receive_stream(struct connection *at) {
    unsigned count = 0, used = 0;
    flush(at);
    ssize_t length = recv(at->socket, at->in + at->filled, BUFFER - at->filled, 0);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (length <= 0) {
        reopen(at, 1);
        return 1;
    }
    int on = 1; /* a server that waits for the acknowledgement of its last answer (Nagle) shall get it at once */
    setsockopt(at->socket, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    now = clock_ns();
    at->filled += (unsigned)length;
    for (; at->filled - used >= 2 && at->filled - used >= 2 + number16(at->in + used); count++) {
        unsigned size = number16(at->in + used);
        take_answer(at->in + used + 2, size);
        used += 2 + size;
        at->answered++;
    }
    at->filled -= used;
    memmove(at->in, at->in + used, at->filled);
    if (at->answered >= PER_CONNECTION) reopen(at, 0);
    return count;
}

static unsigned receive_tcp(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < connection_count; i++) count += receive_stream(&connections[i]);
    return count;
}

static uint64_t own_drops(void) {
    uint32_t memory[9] = {0};
    socklen_t size = sizeof memory;
    if (udp < 0 || getsockopt(udp, SOL_SOCKET, SO_MEMINFO, memory, &size)) return 0;
    return memory[8];
}

static void print_report(double seconds, int whole) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"seconds\":%.6f,\"sent\":%" PRIu64 ",\"junk\":%" PRIu64 ",\"hits\":%" PRIu64 ",\"misses\":%" PRIu64
           ",\"wrong\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"stray\":%" PRIu64 ",\"resets\":%" PRIu64 ",\"dropped\":%" PRIu64,
           seconds, sent, junk, hits, misses, wrong, lost, stray, resets, own_drops());
    printf(",\"cpu_seconds\":%.6f,\"idle_seconds\":%.6f,\"gap_ns\":%" PRIu64 ",\"own_gap_ns\":%" PRIu64 ",\"histogram\":[",
           cpu, (double)idle / 1e9, longest_gap, own_gap);
    for (unsigned i = 0, first = 1; whole && i < BUCKETS; i++)
        if (histogram[i]) printf("%s[%" PRIu64 ",%" PRIu64 "]", first ? "" : ",", top_of(i), histogram[i]), first = 0;
    printf("]}\n");
    fflush(stdout);
}

/* How many queries are to go out now, and (through *due) when the first of them should have. */
static unsigned wanted(uint64_t rate, uint64_t outstanding, uint64_t *due) {
    uint64_t count, out = sent + junk;
    if (rate) {
        uint64_t by_now = (now - started) * rate / SECOND + 1;
        count = by_now > out ? by_now - out : 0;
        *due = started + out * SECOND / rate;
    } else {
        count = under_way < outstanding ? outstanding - under_way : 0;
        *due = now;
    }
    if (head - tail + BATCH > MOST_LIVE) return 0;
    return count < BATCH ? (unsigned)count : BATCH;
}

static void run(uint64_t seconds_ns, uint64_t outstanding, uint64_t rate, uint64_t every) {
    uint64_t due, before, next_report = every;
    unsigned share = connection_count ? (unsigned)(outstanding / connection_count) : 0;
    started = last_answer = now = clock_ns();
    uint64_t end = started + seconds_ns;
    for (before = now; now < end; before = now) {
        unsigned work = 0, count = wanted(rate, outstanding, &due);
        uint64_t step = rate ? SECOND / rate : 0;
        if (count) work = connection_count ? send_tcp(count, share, due, step) : send_udp(count, due, step);
        work += connection_count ? receive_tcp() : receive_udp();
        forget_lost(PATIENCE);
        now = clock_ns();
        if (!work) idle += now - before;
        if (now - before > own_gap) own_gap = now - before;
        if (every && now - started >= next_report) {
            print_report((double)(now - started) / 1e9, 0);
            next_report += every;
        }
    }
    double seconds = (double)(now - started) / 1e9;
    uint64_t gap = longest_gap, last = now + PATIENCE;
    for (; under_way && now < last; now = clock_ns()) connection_count ? receive_tcp() : receive_udp();
    longest_gap = gap; /* nothing is sent any more */
    forget_lost(0);
    print_report(seconds, 1);
}

int main(int count, char **words) {
    if (count != 8) {
        fprintf(stderr, "usage: client QUERIES PORT SECONDS OUTSTANDING RATE CONNECTIONS EVERY\n");
        return 2;
    }
    read_queries(words[1]);
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[2])), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    connection_count = (unsigned)atoi(words[6]);
    if (connection_count > MOST_CONNECTIONS) fail("CONNECTIONS");
    if (connection_count) connections = calloc(connection_count, sizeof *connections);
    if (connection_count && !connections) fail("calloc");
    for (unsigned i = 0; i < connection_count; i++) open_connection(&connections[i]);
    if (!connection_count) udp = connected(SOCK_DGRAM);
    run((uint64_t)(atof(words[3]) * 1e9), (uint64_t)atoll(words[4]), (uint64_t)atoll(words[5]), (uint64_t)(atof(words[7]) * 1e9));
    return 0;
}
