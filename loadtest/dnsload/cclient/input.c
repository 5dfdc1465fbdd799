/* The input of the client: its options, its queries and its pace. */
#include "client.h"
#include <math.h>
#include <stdio.h>

enum { MOST_STRETCHES = 100 };

struct options options = {.host = "127.0.0.1", .rates = "", .source = "", .port = 53, .seconds = 1, .outstanding = 100, .sockets = 1, .patience = 1};
static const struct { const char *name; size_t at; } NUMBERS[] = {
#define NUMBER(name) {#name, offsetof(struct options, name)}
    NUMBER(port), NUMBER(seconds), NUMBER(outstanding), NUMBER(sockets), NUMBER(connections),
    NUMBER(each), NUMBER(patience), NUMBER(every), NUMBER(authoritative), NUMBER(retry), NUMBER(total)};
static struct { double first, last; } stretches[MOST_STRETCHES];

void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "malformed");
    exit(1);
}

void *allocated(size_t count, size_t size) {
    void *made = calloc(count, size);
    if (!made) fail("memory");
    return made;
}

static socklen_t set_address(struct sockaddr_storage *at, const char *host, double port) {
    struct sockaddr_in *four = (struct sockaddr_in *)at;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)at;
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) != 1) fail(host);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)port);
    return sizeof *six;
}

/* Bind a socket to the source address, if there is one. */
void bind_source(int made) {
    if (*options.source && bind(made, (struct sockaddr *)&run.source, run.server_size)) fail(options.source);
}

static void set_number(const char *word, size_t length, const char *value) {
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        if (strlen(NUMBERS[i].name) == length && !memcmp(NUMBERS[i].name, word, length)) {
            *(double *)((char *)&options + NUMBERS[i].at) = atof(value);
            return;
        }
    fail(word);
}

void read_options(int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *value = strchr(words[i], '=');
        if (!value) fail(words[i]);
        size_t length = (size_t)(value++ - words[i]);
        if (!strncmp(words[i], "host=", 5)) options.host = value;
        else if (!strncmp(words[i], "rates=", 6)) options.rates = value;
        else if (!strncmp(words[i], "source=", 7)) options.source = value;
        else set_number(words[i], length, value);
    }
    if (options.sockets < 1 || options.sockets > MOST_SOCKETS || options.connections > MOST_CONNECTIONS || options.seconds <= 0)
        fail("the options");
    run.patience = (uint64_t)(options.patience * SECOND);
    run.connections = (unsigned)options.connections;
    run.sockets = run.connections ? 1 : (unsigned)options.sockets;
    run.server_size = set_address(&run.server, options.host, options.port);
    if (*options.source && set_address(&run.source, options.source, 0) != run.server_size) fail(options.source);
}

/* The queries. */

static uint8_t *whole_input(size_t *size) {
    size_t room = 1 << 20;
    uint8_t *all = NULL;
    *size = 0;
    for (ssize_t got = 1; got; *size += (size_t)got) {
        if (!all || *size == room) all = realloc(all, room *= 2);
        if (!all) fail("memory");
        got = read(0, all + *size, room - *size);
        if (got < 0) fail("the queries");
    }
    return all;
}

/* Return the offset after the name that begins at AT, or an offset beyond LENGTH if the name doesn't end before. */
size_t after_name(const uint8_t *message, size_t at, size_t length) {
    while (at < length && message[at] && message[at] < 64) at += message[at] + 1u;
    return at < length ? at + (message[at] ? 2 : 1) : length + 1;
}

void read_queries(void) {
    size_t size;
    const uint8_t *at = whole_input(&size), *end = at + size;
    struct query *queries = allocated(size / 6 + 1, sizeof *queries), *query = queries;
    errno = 0;
    for (; end - at >= 6; query++) {
        *query = (struct query){at + 6, at + 6 + number16(at), (uint16_t)number16(at), 0, at[2], at[3], at[4], at[5]};
        size_t addresses = query->count == ANY ? 0 : (size_t)query->size * query->count;
        if ((size_t)(end - at) < 6 + query->length + addresses || query->length > MESSAGE) fail("the queries");
        size_t question = after_name(query->bytes, 12, query->length) + 4;
        if (query->kind == ASKED && question > query->length) fail("the queries");
        query->question = (uint16_t)question;
        at += 6 + query->length + addresses;
    }
    if (at != end || query == queries) fail("the queries");
    run.queries = queries;
    run.query_count = (size_t)(query - queries);
}

/* The pace. */

void read_rates(void) {
    for (const char *at = options.rates; *at; at += *at == ',') {
        char *end;
        if (run.stretches == MOST_STRETCHES) fail("rates");
        stretches[run.stretches].first = strtod(at, &end);
        stretches[run.stretches++].last = *end == '-' ? strtod(end + 1, &end) : 0;
        if (end == at || (*end && *end != ',')) fail("rates");
        at = end;
    }
}

/* Return the number of queries that are due within the first AT ns. */
double due_within(uint64_t at) {
    double length = options.seconds / run.stretches, left = fmin((double)at / SECOND, options.seconds), all = 0;
    for (unsigned i = 0; i < run.stretches && left > 0; i++, left -= length) {
        double first = stretches[i].first, slope = (stretches[i].last - first) / length, time = fmin(left, length);
        all += time * (first + slope * time / 2);
    }
    return all;
}

/* Return the time at which the query with this NUMBER is due. This is the inverse of due_within. */
uint64_t due_of(uint64_t number) {
    double length = options.seconds / run.stretches, left = (double)number;
    for (unsigned i = 0; i < run.stretches; i++) {
        double first = stretches[i].first, last = stretches[i].last, all = length * (first + last) / 2;
        if (left < all || i + 1 == run.stretches) {
            double time = 2 * left / (first + sqrt(fmax(first * first + 2 * (last - first) / length * left, 0)));
            return run.started + (uint64_t)((i * length + time) * SECOND);
        }
        left -= all;
    }
    return run.now;
}

/* Return the number of queries that are due by now. */
uint64_t due_now(void) {
    double due = due_within(run.now - run.started);
    return run.now - run.started < options.seconds * SECOND ? (uint64_t)due + 1 : (uint64_t)llrint(due);
}
