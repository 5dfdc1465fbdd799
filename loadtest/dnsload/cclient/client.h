/* The declarations that the parts of the client share. client.py, beside this folder, starts the client and reads its
   reports. */
#ifndef CLIENT_H
#define CLIENT_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASKED, JUNK, PORTLESS }; /* kinds: JUNK and PORTLESS packets need no answer; PORTLESS have the source port 0 */
enum {
    BATCH = 64,
    IDS = 1023 * BATCH, /* number of IDs for queries on a socket; the higher IDs are for packets that need no answer */
    MESSAGE = 4096,     /* most bytes of one query, or of one answer by UDP */
    ANY = 255,          /* in the record of a query, stands for any rcode or any addresses */
    MOST_SOCKETS = 256,
    MOST_CONNECTIONS = 500,
    STEPS = 256, /* buckets of a histogram for each power of two: see histogram.py */
    LONGEST = 40,
    BUCKETS = (LONGEST - 7) * STEPS,
};
#define SECOND UINT64_C(1000000000)

struct options {
    const char *host, *rates, *source;
    double port, seconds, outstanding, sockets, connections, each, patience, every, authoritative, retry, total;
};
struct query {
    const uint8_t *bytes, *addresses;
    uint16_t length, question; /* QUESTION is the offset at which the question ends */
    uint8_t kind, rcode, size, count;
};
struct live { /* the state of one ID of one socket */
    const struct query *query, *before; /* the latest query with this ID, and the query before it */
    uint64_t due;                       /* the time at which the latest query was due, in ns */
    uint32_t lag;                       /* the time by which it was sent late, in µs */
    uint8_t waiting, lost;
};
struct run {
    const struct query *queries;
    size_t query_count;
    struct live *live;
    uint64_t slots;      /* number of entries in LIVE; queries take the entries in turn */
    uint64_t head, tail; /* numbers of the next query to send, and of the oldest query that may be outstanding */
    uint64_t under_way, out, started, now, patience, last_answer;
    int is_sending;
    unsigned stretches, sockets, connections;
    struct sockaddr_storage server, source;
    socklen_t server_size; /* also the size of SOURCE */
};

enum count {
    SENT, RIGHT, TRUNCATED, WRONG, LOST, LATE, UNEXPECTED, MALFORMED_SENT, MALFORMED_ANSWERED, REFUSED,
    CONNECTIONS_FAILED, CLIENT_DROPS, UNSENT, RETRIED, COUNTS
};
enum fault { NO_FAULT, CUT, QUESTION, NO_RESPONSE, RCODE, NOT_AUTHORITATIVE, STREAM_CUT, ADDRESSES, MALFORMED, FAULTS };
struct seen { /* the counts since the previous report */
    uint64_t counts[COUNTS], faults[FAULTS], rcodes[16], latencies[BUCKETS], lags[BUCKETS];
    uint64_t longest_gap, own_gap, idle;
};

extern struct options options;
extern struct run run;
extern struct seen seen;
extern volatile sig_atomic_t stopped;

static inline unsigned number16(const uint8_t *at) { return (unsigned)at[0] << 8 | at[1]; }

/* input.c */
void fail(const char *what);
void *allocated(size_t count, size_t size);
size_t after_name(const uint8_t *message, size_t at, size_t length);
void bind_source(int made);
void read_options(int count, char **words);
void read_queries(void);
void read_rates(void);
double due_within(uint64_t at);
uint64_t due_of(uint64_t number);
uint64_t due_now(void);

/* queries.c */
unsigned id_of(uint64_t slot);
uint64_t slot_of(unsigned socket, unsigned id);
unsigned socket_of(uint64_t slot);
const struct query *take(uint8_t *into);
void take_answer(uint64_t slot, const uint8_t *answer, size_t length, int stream);
int take_truncated(uint64_t *slot);
void forget_lost(int all);

/* udp.c */
void open_udp(void);
unsigned send_udp(unsigned wanted);
unsigned receive_udp(void);
uint32_t own_drops(void);

/* tcp.c */
void open_tcp(void);
unsigned send_tcp(unsigned wanted);
unsigned receive_tcp(void);

/* report.c */
uint64_t clock_ns(void);
void count_duration(uint64_t *histogram, uint64_t ns);
void keep_example(const struct query *query, const uint8_t *answer, size_t length);
void report(double seconds, uint32_t drops, int is_last);

#endif
