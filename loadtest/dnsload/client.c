/* Sends DNS queries to one server as fast or as evenly as told, and checks every answer. client.py starts it and reads
   what it says.

   usage: client NAME=VALUE... < QUERIES
   host=ADDRESS port=NUMBER   the server
   seconds=S                  how long to send
   rates=FIRST-LAST,...       queries a second, whatever the answers do: stretches of equal length, each with an even ramp
   outstanding=N              without rates: so many queries are under way at any time; each TCP connection has its share
   sockets=N                  UDP sockets (1)
   connections=N              TCP connections instead (0 is UDP)
   each=N                     queries of a connection, after which it is made anew (0 is no end)
   patience=S                 a query that isn't answered by then is lost (1)
   every=S                    seconds between reports (0 is one at the end)
   authoritative=1            an answer without AA is wrong
   retry=1                    a query whose UDP answer is truncated is asked again over a TCP connection of its own

   QUERIES are records: query length (2 bytes), kind, expected rcode, length of each expected address, their number, the
   query, the addresses. An rcode of 255 is any of NOERROR and NXDOMAIN; a number of 255 is any addresses.
   It prints lines of JSON: what was counted since the last line. Examples of wrong answers have the number of their query.
   It never sleeps: a thread that is woken late would count its own delay as the server's. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ASKED, JUNK, PORTLESS }; /* no answer to the last two is looked at; PORTLESS leave from source port 0 */
enum {
    BATCH = 64,
    IDS = 1023 * BATCH, /* of a socket; the IDs after these are for junk, whose answers are for nobody */
    MESSAGE = 4096,     /* bytes of one query or answer by UDP */
    BUFFER = 2 + (1 << 16),
    ANY = 255,
    MOST_SOCKETS = 256,
    MOST_CONNECTIONS = 500,
    MOST_STRETCHES = 100,
    RETRIES = 100, /* TCP connections for truncated answers */
    EXAMPLES = 10,
    STEPS = 256, /* of the histogram, to each power of two: see histogram.py */
    LONGEST = 40,
    BUCKETS = (LONGEST - 7) * STEPS,
};
enum { TYPE_CNAME = 5, TYPE_DNAME = 39, TYPE_RRSIG = 46 };
#define SECOND UINT64_C(1000000000)
#define GRACE (SECOND / 5) /* a client that lags at the end may still send for so long */
#define PAUSE (SECOND / 20) /* until a connection that failed is tried again */

enum {
    SENT, RIGHT, TRUNCATED, WRONG, LOST, LATE, UNEXPECTED, MALFORMED_SENT, MALFORMED_ANSWERED, REFUSED,
    CONNECTIONS_FAILED, CLIENT_DROPS, UNSENT, RETRIED, COUNTS
};
static const char *const COUNT_NAMES[] = {
    "sent", "right", "truncated", "wrong", "lost", "late", "unexpected", "malformed_sent", "malformed_answered", "refused",
    "connections_failed", "client_drops", "unsent", "retried"};
enum { NO_FAULT, CUT, QUESTION, NO_RESPONSE, RCODE, NOT_AUTHORITATIVE, STREAM_CUT, ADDRESSES, MALFORMED, FAULTS };
static const char *const FAULT_NAMES[] = {
    "", "", "question", "not a response", "rcode", "not authoritative", "truncated", "addresses", "malformed"};

struct query {
    const uint8_t *bytes, *addresses;
    uint16_t length, question; /* where the question ends */
    uint8_t kind, rcode, size, count;
};
struct live { /* one for each ID of each socket */
    const struct query *query, *before; /* the last query of the ID, and the one before that */
    uint64_t due;                       /* when it should have been sent, ns */
    uint32_t lag;                       /* after which it was, µs */
    uint8_t waiting, lost;
};
struct connection {
    int socket; /* -1: none */
    unsigned sent, answered, filled, unsent;
    uint64_t slot, again; /* the query that a retry is for; when to connect again */
    uint8_t in[BUFFER], out[BUFFER];
};

static const char *host = "127.0.0.1", *rates = "";
static double port = 53, seconds = 1, outstanding = 100, sockets = 1, connections = 0, each = 0, patience = 1, every = 0;
static double authoritative = 0, retry = 0;
static const struct { const char *name; double *number; } OPTIONS[] = {
    {"port", &port}, {"seconds", &seconds}, {"outstanding", &outstanding}, {"sockets", &sockets},
    {"connections", &connections}, {"each", &each}, {"patience", &patience}, {"every", &every},
    {"authoritative", &authoritative}, {"retry", &retry}};

static struct { double first, last; } stretches[MOST_STRETCHES];
static unsigned stretch_count, socket_count, connection_count, next_connection, retry_count;
static struct query *queries;
static size_t query_count, next_query;
static struct live *live;
static uint64_t slots, head, tail; /* sequence numbers: the next to be sent, the oldest that may be under way */
static uint64_t under_way, out, started, now, patience_ns, last_answer;
static uint64_t waiting[IDS], waiting_head, waiting_tail; /* slots that are to be retried */
static int udp[MOST_SOCKETS], raw = -1;
static struct connection *streams;
static struct sockaddr_storage server;
static socklen_t server_size;
static volatile sig_atomic_t stopped;

/* What is reported; each report begins anew. */
static uint64_t counts[COUNTS], faults[FAULTS], rcodes[16], latencies[BUCKETS], lags[BUCKETS];
static uint64_t longest_gap, own_gap, idle;
static double cpu_before;
static uint32_t drops_before;
static unsigned examples, examples_now;
static struct { size_t place, length; uint8_t bytes[MESSAGE]; } example[EXAMPLES];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "malformed");
    exit(1);
}

static uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static void *allocated(size_t count, size_t size) {
    void *made = calloc(count, size);
    if (!made) fail("memory");
    return made;
}

static unsigned number16(const uint8_t *at) { return (unsigned)at[0] << 8 | at[1]; }

/* Where the name that begins at AT ends; past the LENGTH if it doesn't. */
static size_t after_name(const uint8_t *message, size_t at, size_t length) {
    while (at < length && message[at] && message[at] < 64) at += message[at] + 1u;
    return at < length ? at + (message[at] ? 2 : 1) : length + 1;
}

/* The queries. */

static uint8_t *whole_input(size_t *size) {
    size_t room = 1 << 20, filled = 0;
    uint8_t *all = NULL;
    for (ssize_t got = 1; got; filled += (size_t)got) {
        if (!all || filled == room) all = realloc(all, room *= 2);
        if (!all) fail("memory");
        got = read(0, all + filled, room - filled);
        if (got < 0) fail("the queries");
    }
    *size = filled;
    return all;
}

static void read_queries(void) {
    size_t size;
    const uint8_t *at = whole_input(&size), *end = at + size;
    queries = allocated(size / 6 + 1, sizeof *queries);
    errno = 0;
    for (; end - at >= 6; query_count++) {
        struct query *query = &queries[query_count];
        *query = (struct query){at + 6, at + 6 + number16(at), (uint16_t)number16(at), 0, at[2], at[3], at[4], at[5]};
        size_t addresses = query->count == ANY ? 0 : (size_t)query->size * query->count;
        if ((size_t)(end - at) < 6 + query->length + addresses || query->length > MESSAGE) fail("the queries");
        size_t question = after_name(query->bytes, 12, query->length) + 4;
        if (query->kind == ASKED && question > query->length) fail("the queries");
        query->question = (uint16_t)question;
        at += 6 + query->length + addresses;
    }
    if (at != end || !query_count) fail("the queries");
}

/* The pace. */

static void read_rates(void) {
    for (const char *at = rates; *at; at += *at == ',') {
        char *end;
        if (stretch_count == MOST_STRETCHES) fail("rates");
        stretches[stretch_count].first = strtod(at, &end);
        stretches[stretch_count++].last = *end == '-' ? strtod(end + 1, &end) : 0;
        if (end == at || (*end && *end != ',')) fail("rates");
        at = end;
    }
}

/* How many queries are due within the first AT ns. */
static double due_within(uint64_t at) {
    double length = seconds / stretch_count, left = fmin((double)at / SECOND, seconds), all = 0;
    for (unsigned i = 0; i < stretch_count && left > 0; i++, left -= length) {
        double first = stretches[i].first, slope = (stretches[i].last - first) / length, time = fmin(left, length);
        all += time * (first + slope * time / 2);
    }
    return all;
}

/* When query NUMBER is due: the inverse of it. */
static uint64_t due_of(uint64_t number) {
    double length = seconds / stretch_count, left = (double)number;
    for (unsigned i = 0; i < stretch_count; i++) {
        double first = stretches[i].first, last = stretches[i].last, all = length * (first + last) / 2;
        if (left < all || i + 1 == stretch_count) {
            double time = 2 * left / (first + sqrt(fmax(first * first + 2 * (last - first) / length * left, 0)));
            return started + (uint64_t)((i * length + time) * SECOND);
        }
        left -= all;
    }
    return now;
}

static uint64_t due_now(void) {
    double due = due_within(now - started);
    return now - started < seconds * SECOND ? (uint64_t)due + 1 : (uint64_t)llrint(due);
}

/* The sockets. Consecutive queries go through one socket, BATCH by BATCH. */

static unsigned socket_of(uint64_t slot) { return (unsigned)(slot / BATCH % socket_count); }
static unsigned id_of(uint64_t slot) { return (unsigned)(slot / BATCH / socket_count * BATCH + slot % BATCH); }
static uint64_t slot_of(unsigned number, unsigned id) {
    return ((uint64_t)id / BATCH * socket_count + number) * BATCH + id % BATCH;
}

static void widen_buffer(int made) {
    int bytes = 4 << 20; /* answers that arrive in a burst mustn't be lost here; the kernel gives what it allows */
    if (setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
        setsockopt(made, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

static int udp_socket(void) {
    int made = socket(server.ss_family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (made < 0) fail("socket");
    widen_buffer(made);
    if (connect(made, (struct sockaddr *)&server, server_size)) fail("connect");
    return made;
}

static void open_stream(struct connection *at) {
    int on = 1;
    at->sent = at->answered = at->filled = at->unsent = 0;
    at->socket = socket(server.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (at->socket < 0) fail("socket");
    setsockopt(at->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!connect(at->socket, (struct sockaddr *)&server, server_size) || errno == EINPROGRESS) return;
    close(at->socket);
    at->socket = -1;
    at->again = now + PAUSE;
    counts[CONNECTIONS_FAILED]++;
}

static void close_stream(struct connection *at, int early) {
    close(at->socket);
    at->socket = -1;
    at->again = now + (early ? PAUSE : 0);
    counts[CONNECTIONS_FAILED] += (uint64_t)early;
}

static void set_server(void) {
    struct sockaddr_in *four = (struct sockaddr_in *)&server;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&server;
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        server.ss_family = AF_INET, four->sin_port = htons((uint16_t)port), server_size = sizeof *four;
    } else if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        server.ss_family = AF_INET6, six->sin6_port = htons((uint16_t)port), server_size = sizeof *six;
    } else fail(host);
}

/* The durations, as Histogram of histogram.py counts them. */

static void count(uint64_t *histogram, uint64_t ns) {
    if (ns >> LONGEST) ns = (UINT64_C(1) << LONGEST) - 1;
    unsigned bits = ns ? 64 - (unsigned)__builtin_clzll(ns) : 0, shift = bits > 9 ? bits - 9 : 0;
    histogram[shift * STEPS + (unsigned)(ns >> shift)]++;
}

/* One query out. */

static const struct query *take(uint8_t *into, uint64_t due) {
    const struct query *query = &queries[next_query];
    next_query = next_query + 1 == query_count ? 0 : next_query + 1;
    memcpy(into, query->bytes, query->length);
    out++;
    if (query->kind != ASKED) {
        counts[MALFORMED_SENT]++;
        return query;
    }
    uint64_t slot = head++ % slots, lag = now > due ? now - due : 0;
    struct live *entry = &live[slot];
    unsigned id = id_of(slot);
    into[0] = (uint8_t)(id >> 8);
    into[1] = (uint8_t)id;
    *entry = (struct live){query, entry->query, due, (uint32_t)(lag / 1000), 1, 0};
    count(lags, lag);
    under_way++;
    counts[SENT]++;
    return query;
}

/* One answer in. */

static int same_question(const struct query *query, const uint8_t *answer, size_t length) {
    return query && length >= query->question && number16(answer + 4) == 1 &&
           !memcmp(answer + 12, query->bytes + 12, query->question - 12u);
}

static int is_expected(const struct query *query, const uint8_t *address, size_t size) {
    for (unsigned i = 0; size == query->size && i < query->count; i++)
        if (!memcmp(query->addresses + i * size, address, size)) return 1;
    return 0;
}

static unsigned fault_of_addresses(const struct query *query, const uint8_t *answer, size_t length) {
    size_t at = query->question;
    unsigned found = 0, asked = number16(query->bytes + query->question - 4);
    for (unsigned left = number16(answer + 6); left; left--) {
        at = after_name(answer, at, length);
        if (at + 10 > length) return MALFORMED;
        unsigned type = number16(answer + at), size = number16(answer + at + 8);
        at += 10;
        if (at + size > length) return MALFORMED;
        if (type == asked) {
            if (!is_expected(query, answer + at, size)) return ADDRESSES;
            found++;
        } else if (type != TYPE_CNAME && type != TYPE_DNAME && type != TYPE_RRSIG) return ADDRESSES;
        at += size;
    }
    return found == query->count ? NO_FAULT : ADDRESSES;
}

static unsigned fault_of(const struct query *query, const uint8_t *answer, size_t length, int stream) {
    unsigned rcode = answer[3] & 15, cut = answer[2] & 2;
    if (!same_question(query, answer, length)) return QUESTION;
    if (!(answer[2] & 0x80)) return NO_RESPONSE;
    if (query->rcode == ANY ? rcode && rcode != 3 : rcode != query->rcode) return RCODE;
    if (query->rcode != ANY && authoritative && !(answer[2] & 4)) return NOT_AUTHORITATIVE;
    if (cut) return stream ? STREAM_CUT : CUT;
    return query->count == ANY ? NO_FAULT : fault_of_addresses(query, answer, length);
}

static void keep_example(const struct query *query, const uint8_t *answer, size_t length) {
    if (examples == EXAMPLES) return;
    example[examples].place = (size_t)(query - queries);
    example[examples].length = length < MESSAGE ? length : MESSAGE;
    memcpy(example[examples].bytes, answer, example[examples].length);
    examples++;
}

static void close_query(struct live *entry, unsigned kind, unsigned rcode) {
    counts[kind]++;
    rcodes[rcode]++;
    count(latencies, now > entry->due ? now - entry->due : 0);
    entry->waiting = 0;
    under_way--;
}

static void take_answer(uint64_t slot, const uint8_t *answer, size_t length, int stream) {
    struct live *entry = &live[slot];
    if (!entry->waiting || (entry->before && !same_question(entry->query, answer, length) &&
                            same_question(entry->before, answer, length))) {
        counts[UNEXPECTED] += !entry->lost;
        counts[LATE] += entry->lost;
        entry->lost = 0;
        return;
    }
    if (now - last_answer > longest_gap) longest_gap = now - last_answer;
    last_answer = now;
    unsigned fault = fault_of(entry->query, answer, length, stream);
    if (fault == CUT && retry && waiting_head - waiting_tail < IDS) {
        waiting[waiting_head++ % IDS] = slot;
        counts[RETRIED]++;
        return;
    }
    if (fault > CUT) {
        faults[fault]++;
        keep_example(entry->query, answer, length);
    }
    close_query(entry, fault == NO_FAULT ? RIGHT : fault == CUT ? TRUNCATED : WRONG, answer[3] & 15);
}

static void forget_lost(int all) {
    for (; tail < head; tail++) {
        struct live *oldest = &live[tail % slots];
        if (!oldest->waiting) continue;
        if (!all && now < oldest->due + oldest->lag * UINT64_C(1000) + patience_ns) return;
        oldest->waiting = 0;
        oldest->lost = 1;
        under_way--;
        counts[LOST]++;
    }
}

/* UDP: batches. */

/* By a socket that gets no copies of what others receive; the kernel completes the IP header. */
static void send_portless(const struct query *query) {
    enum { IP = 20, HEADERS = IP + 8 };
    const struct sockaddr_in *to = (const struct sockaddr_in *)&server;
    uint8_t packet[HEADERS + MESSAGE] = {0x45, [8] = 64, IPPROTO_UDP};
    memcpy(packet + 16, &to->sin_addr, 4);
    memcpy(packet + IP + 2, &to->sin_port, 2);
    packet[IP + 4] = (uint8_t)((8 + query->length) >> 8);
    packet[IP + 5] = (uint8_t)(8 + query->length); /* without a checksum */
    memcpy(packet + HEADERS, query->bytes, query->length);
    if (raw < 0 && (raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW)) < 0) fail("source port 0 needs a raw socket");
    ssize_t done = sendto(raw, packet, HEADERS + query->length, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof *to);
    if (done < 0 && errno != EAGAIN && errno != ENOBUFS) fail("sendto");
}

/* What can't be sent is lost. */
static void send_batch(int through, struct mmsghdr *batch, unsigned filled) {
    for (unsigned done = 0; done < filled && !stopped;) {
        int some = sendmmsg(through, batch + done, filled - done, 0);
        if (some > 0) done += (unsigned)some;
        else if (errno == ECONNREFUSED) counts[REFUSED]++; /* what an earlier query met; now this one can go */
        else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) counts[REFUSED]++, done++;
        else if (clock_ns() > now + patience_ns) break;
    }
}

static unsigned send_udp(unsigned wanted) {
    static uint8_t messages[BATCH][MESSAGE];
    static struct iovec parts[BATCH];
    static struct mmsghdr batch[BATCH];
    int through = udp[socket_of(head % slots)];
    unsigned filled = 0, taken = 0;
    for (int full = 0; taken < wanted && !full; taken++) {
        const struct query *query = take(messages[filled], stretch_count ? due_of(out) : now);
        if (query->kind == PORTLESS) {
            send_portless(query);
            continue;
        }
        full = query->kind == ASKED && head % BATCH == 0;
        parts[filled] = (struct iovec){messages[filled], query->length};
        batch[filled].msg_hdr = (struct msghdr){.msg_iov = &parts[filled], .msg_iovlen = 1};
        filled++;
    }
    send_batch(through, batch, filled);
    return taken;
}

static unsigned receive_udp(unsigned number) {
    static uint8_t messages[BATCH][MESSAGE];
    static struct iovec parts[BATCH];
    static struct mmsghdr batch[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){messages[i], MESSAGE};
        batch[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int got = recvmmsg(udp[number], batch, BATCH, MSG_DONTWAIT, NULL);
    if (got < 0 && errno == ECONNREFUSED) counts[REFUSED]++;
    if (got <= 0) return 0;
    now = clock_ns();
    for (int i = 0; i < got; i++) {
        unsigned length = batch[i].msg_len, id = length < 12 ? IDS : number16(messages[i]);
        if (id >= IDS) counts[MALFORMED_ANSWERED]++;
        else take_answer(slot_of(number, id), messages[i], length, 0);
    }
    return (unsigned)got;
}

/* TCP: connections in turn, each with its share of what is under way; and one for each truncated answer. */

static void flush(struct connection *at) {
    if (!at->unsent) return;
    ssize_t done = send(at->socket, at->out, at->unsent, MSG_NOSIGNAL);
    if (done <= 0) return; /* full for now, or not yet connected; or reset, which receiving finds too */
    at->unsent -= (unsigned)done;
    memmove(at->out, at->out + done, at->unsent);
}

static void frame(struct connection *at, unsigned length) {
    at->out[at->unsent] = (uint8_t)(length >> 8);
    at->out[at->unsent + 1] = (uint8_t)length;
    at->unsent += 2 + length;
    at->sent++;
}

static unsigned send_tcp(unsigned wanted) {
    unsigned taken = 0, share = stretch_count ? IDS : (unsigned)fmax(outstanding / connection_count, 1);
    for (unsigned tried = 0; tried < connection_count && taken < wanted; tried++) {
        struct connection *at = &streams[next_connection];
        next_connection = (next_connection + 1) % connection_count;
        if (at->socket < 0 && now >= at->again) open_stream(at);
        while (at->socket >= 0 && taken < wanted && (!each || at->sent < each) && at->sent - at->answered < share &&
               at->unsent + MESSAGE + 2 < BUFFER) {
            frame(at, take(at->out + at->unsent + 2, stretch_count ? due_of(out) : now)->length);
            taken++;
        }
        if (at->socket >= 0) flush(at);
    }
    return taken;
}

static unsigned receive_stream(struct connection *at, int is_retry) {
    unsigned got = 0, used = 0;
    flush(at);
    ssize_t length = recv(at->socket, at->in + at->filled, BUFFER - at->filled, 0);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (length <= 0) {
        close_stream(at, at->sent > at->answered || !at->sent);
        return 1;
    }
    int on = 1; /* a server that waits for the acknowledgement of its last answer (Nagle) shall get it at once */
    setsockopt(at->socket, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    now = clock_ns();
    at->filled += (unsigned)length;
    for (; at->filled - used >= 2 && at->filled - used >= 2 + number16(at->in + used); got++) {
        unsigned size = number16(at->in + used);
        const uint8_t *answer = at->in + used + 2;
        if (size < 12 || number16(answer) >= IDS) counts[MALFORMED_ANSWERED]++;
        else take_answer(is_retry ? at->slot : number16(answer), answer, size, 1);
        used += 2 + size;
        at->answered++;
    }
    at->filled -= used;
    memmove(at->in, at->in + used, at->filled);
    if (is_retry ? at->answered : each && at->answered >= each) close_stream(at, 0);
    return got;
}

static void begin_retry(struct connection *at, uint64_t slot) {
    const struct live *entry = &live[slot];
    if (!entry->waiting) return; /* lost meanwhile */
    open_stream(at);
    if (at->socket < 0) return; /* it will be lost */
    at->slot = slot;
    memcpy(at->out + 2, entry->query->bytes, entry->query->length);
    at->out[2] = (uint8_t)(id_of(slot) >> 8);
    at->out[3] = (uint8_t)id_of(slot);
    frame(at, entry->query->length);
}

static unsigned retry_truncated(void) {
    unsigned got = 0;
    for (unsigned i = 0; i < retry_count; i++) {
        struct connection *at = &streams[i];
        if (at->socket < 0 && waiting_tail < waiting_head) begin_retry(at, waiting[waiting_tail++ % IDS]);
        if (at->socket >= 0) got += receive_stream(at, 1);
        if (at->socket >= 0 && !live[at->slot].waiting) close_stream(at, 1);
    }
    return got;
}

static unsigned receive(void) {
    unsigned got = 0;
    for (unsigned i = 0; i < connection_count; i++)
        if (streams[i].socket >= 0) got += receive_stream(&streams[i], 0);
    for (unsigned i = 0; !connection_count && i < socket_count; i++) got += receive_udp(i);
    return got + retry_truncated();
}

/* What is said. */

static uint32_t own_drops(void) {
    uint32_t all = 0;
    for (unsigned i = 0; !connection_count && i < socket_count; i++) {
        uint32_t memory[9] = {0};
        socklen_t size = sizeof memory;
        if (!getsockopt(udp[i], SOL_SOCKET, SO_MEMINFO, memory, &size)) all += memory[8];
    }
    return all;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void print_histogram(const char *name, const uint64_t *histogram) {
    printf(",\"%s\":[", name);
    for (unsigned i = 0, first = 1; i < BUCKETS; i++)
        if (histogram[i]) printf("%s[%u,%" PRIu64 "]", first ? "" : ",", i, histogram[i]), first = 0;
    printf("]");
}

static void print_counts(const char *name, const char *const *names, const uint64_t *numbers, unsigned count) {
    printf(",\"%s\":{", name);
    for (unsigned i = 0, first = 1; i < count; i++) {
        if (!numbers[i]) continue;
        if (names) printf("%s\"%s\":%" PRIu64, first ? "" : ",", names[i], numbers[i]);
        else printf("%s\"%u\":%" PRIu64, first ? "" : ",", i, numbers[i]);
        first = 0;
    }
    printf("}");
}

static void print_examples(void) {
    printf(",\"examples\":[");
    for (unsigned i = examples_now; i < examples; i++) {
        printf("%s[%zu,\"", i > examples_now ? "," : "", example[i].place);
        for (size_t at = 0; at < example[i].length; at++) printf("%02x", example[i].bytes[at]);
        printf("\"]");
    }
    printf("]");
    examples_now = examples;
}

static void report(double sending, int last) {
    uint32_t drops = own_drops();
    double cpu = cpu_seconds();
    counts[CLIENT_DROPS] = drops - drops_before;
    printf("{\"last\":%s,\"elapsed\":%.6f,\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"idle_seconds\":%.6f,\"gap_ns\":%" PRIu64
           ",\"own_gap_ns\":%" PRIu64, last ? "true" : "false", (double)(now - started) / 1e9, sending, cpu - cpu_before, (double)idle / 1e9,
           longest_gap, own_gap);
    print_counts("counts", COUNT_NAMES, counts, COUNTS);
    print_counts("rcodes", NULL, rcodes, 16);
    print_counts("reasons", FAULT_NAMES, faults, FAULTS);
    print_histogram("latency", latencies);
    print_histogram("lag", lags);
    print_examples();
    printf("}\n");
    fflush(stdout);
    memset(counts, 0, sizeof counts);
    memset(rcodes, 0, sizeof rcodes);
    memset(faults, 0, sizeof faults);
    memset(latencies, 0, sizeof latencies);
    memset(lags, 0, sizeof lags);
    longest_gap = own_gap = idle = 0;
    cpu_before = cpu;
    drops_before = drops;
}

/* The run. */

static unsigned wanted(void) {
    uint64_t by_now = stretch_count ? due_now() : under_way < outstanding ? out + (uint64_t)outstanding - under_way : out;
    if (head - tail + BATCH > slots) return 0; /* all IDs are under way */
    return by_now <= out ? 0 : by_now - out < BATCH ? (unsigned)(by_now - out) : BATCH;
}

static void run(void) {
    uint64_t length = (uint64_t)(seconds * SECOND), before, next_report = every > 0 ? (uint64_t)(every * SECOND) : UINT64_MAX;
    uint64_t all = (uint64_t)llrint(due_within(length)), gap = 0;
    started = last_answer = now = clock_ns();
    uint64_t sending_ended = 0;
    for (before = now; !stopped; before = now) {
        unsigned work = 0;
        int late = stretch_count && out < all && now - started < length + GRACE;
        if (!sending_ended && now - started >= length && !late) {
            sending_ended = now;
            counts[UNSENT] += all > out ? all - out : 0;
            gap = longest_gap;
        }
        if (sending_ended && (!under_way || now - sending_ended > patience_ns + SECOND)) break;
        if (!sending_ended && (work = wanted())) work = connection_count ? send_tcp(work) : send_udp(work);
        work += receive();
        forget_lost(0);
        now = clock_ns();
        if (sending_ended) longest_gap = gap; /* nothing is sent any more */
        else {
            if (!work) idle += now - before;
            if (now - before > own_gap) own_gap = now - before;
        }
        if (now - started >= next_report) {
            report((double)((sending_ended ? sending_ended : now) - started) / 1e9, 0);
            next_report += (uint64_t)(every * SECOND);
            gap = 0;
        }
    }
    if (stopped) counts[UNSENT] += stretch_count && due_now() > out ? due_now() - out : 0;
    else forget_lost(1);
    report((double)((sending_ended ? sending_ended : now) - started) / 1e9, 1);
}

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static void read_options(int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *value = strchr(words[i], '=');
        unsigned number = 0, known = sizeof OPTIONS / sizeof *OPTIONS;
        size_t length = value ? (size_t)(value++ - words[i]) : 0;
        if (length == 4 && !memcmp(words[i], "host", 4)) host = value;
        else if (length == 5 && !memcmp(words[i], "rates", 5)) rates = value;
        else {
            while (number < known && (strlen(OPTIONS[number].name) != length || memcmp(OPTIONS[number].name, words[i], length)))
                number++;
            if (!value || number == known) fail(words[i]);
            *OPTIONS[number].number = atof(value);
        }
    }
    if (sockets < 1 || sockets > MOST_SOCKETS || connections > MOST_CONNECTIONS || seconds <= 0) fail("the options");
}

int main(int count, char **words) {
    read_options(count, words);
    read_rates();
    read_queries();
    set_server();
    patience_ns = (uint64_t)(patience * SECOND);
    connection_count = (unsigned)connections;
    retry_count = retry && !connection_count ? RETRIES : 0;
    socket_count = connection_count ? 1 : (unsigned)sockets;
    slots = (uint64_t)IDS * socket_count;
    live = allocated(slots, sizeof *live);
    streams = allocated(connection_count + retry_count + 1, sizeof *streams);
    for (unsigned i = 0; i < connection_count + retry_count; i++) streams[i].socket = -1;
    for (unsigned i = 0; !connection_count && i < socket_count; i++) udp[i] = udp_socket();
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    run();
    return 0;
}
