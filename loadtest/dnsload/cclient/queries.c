/* The outstanding queries, and their answers.

   Queries take slots in turn. A slot stands for one ID of one socket. The first BATCH slots are those of the first
   socket, the next BATCH slots those of the next socket, and so on in turn. */
#include "client.h"

enum { TYPE_CNAME = 5, TYPE_DNAME = 39, TYPE_RRSIG = 46 };

struct run run;
struct seen seen;
static size_t next_query;
static uint64_t truncated[IDS], truncated_head, truncated_tail; /* slots of the queries to repeat by TCP */

unsigned socket_of(uint64_t slot) { return (unsigned)(slot / BATCH % run.sockets); }
unsigned id_of(uint64_t slot) { return (unsigned)(slot / BATCH / run.sockets * BATCH + slot % BATCH); }
uint64_t slot_of(unsigned socket, unsigned id) { return ((uint64_t)id / BATCH * run.sockets + socket) * BATCH + id % BATCH; }

/* Sending a query. */

const struct query *take(uint8_t *into) {
    const struct query *query = &run.queries[next_query];
    next_query = next_query + 1 == run.query_count ? 0 : next_query + 1;
    memcpy(into, query->bytes, query->length);
    uint64_t due = run.stretches ? due_of(run.out) : run.now;
    run.out++;
    if (query->kind != ASKED) {
        seen.counts[MALFORMED_SENT]++;
        return query;
    }
    uint64_t slot = run.head++ % run.slots, lag = run.now > due ? run.now - due : 0;
    struct live *entry = &run.live[slot];
    unsigned id = id_of(slot);
    into[0] = (uint8_t)(id >> 8);
    into[1] = (uint8_t)id;
    *entry = (struct live){query, entry->query, due, (uint32_t)(lag / 1000), 1, 0};
    count_duration(seen.lags, lag);
    run.under_way++;
    seen.counts[SENT]++;
    return query;
}

/* Taking an answer. */

static int same_question(const struct query *query, const uint8_t *answer, size_t length) {
    return query && length >= query->question && number16(answer + 4) == 1 &&
           !memcmp(answer + 12, query->bytes + 12, query->question - 12u);
}

static int is_expected(const struct query *query, const uint8_t *address, size_t size) {
    for (unsigned i = 0; size == query->size && i < query->count; i++)
        if (!memcmp(query->addresses + i * size, address, size)) return 1;
    return 0;
}

static enum fault fault_of_addresses(const struct query *query, const uint8_t *answer, size_t length) {
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

static enum fault fault_of(const struct query *query, const uint8_t *answer, size_t length, int stream) {
    unsigned rcode = answer[3] & 15, cut = answer[2] & 2;
    if (!same_question(query, answer, length)) return QUESTION;
    if (!(answer[2] & 0x80)) return NO_RESPONSE;
    if (query->rcode == ANY ? rcode && rcode != 3 : rcode != query->rcode) return RCODE;
    if (query->rcode != ANY && options.authoritative && !(answer[2] & 4)) return NOT_AUTHORITATIVE;
    if (cut) return stream ? STREAM_CUT : CUT;
    return query->count == ANY ? NO_FAULT : fault_of_addresses(query, answer, length);
}

/* Tell whether the slot's query isn't outstanding, or the answer is to the query that had the ID before. */
static int is_stray(const struct live *entry, const uint8_t *answer, size_t length) {
    if (!entry->waiting) return 1;
    return !same_question(entry->query, answer, length) && same_question(entry->before, answer, length);
}

static void keep_truncated(uint64_t slot) {
    if (truncated_head - truncated_tail == IDS) return; /* the query will be counted as lost */
    truncated[truncated_head++ % IDS] = slot;
    seen.counts[RETRIED]++;
}

/* Store into SLOT the next slot whose query is to be repeated by TCP, and return 1. Return 0 if there is none. */
int take_truncated(uint64_t *slot) {
    if (truncated_tail == truncated_head) return 0;
    *slot = truncated[truncated_tail++ % IDS];
    return 1;
}

/* Check and count an answer, which has at least 12 bytes. */
void take_answer(uint64_t slot, const uint8_t *answer, size_t length, int stream) {
    struct live *entry = &run.live[slot];
    if (is_stray(entry, answer, length)) {
        seen.counts[entry->lost ? LATE : UNEXPECTED]++;
        if (entry->lost) count_duration(seen.latencies, run.now - entry->due);
        entry->lost = 0;
        return;
    }
    if (run.is_sending && run.now - run.last_answer > seen.longest_gap) seen.longest_gap = run.now - run.last_answer;
    run.last_answer = run.now;
    enum fault fault = fault_of(entry->query, answer, length, stream);
    if (fault == CUT && options.retry) {
        keep_truncated(slot);
        return;
    }
    if (fault > CUT) {
        seen.faults[fault]++;
        keep_example(entry->query, answer, length);
    }
    seen.counts[fault == NO_FAULT ? RIGHT : fault == CUT ? TRUNCATED : WRONG]++;
    seen.rcodes[answer[3] & 15]++;
    count_duration(seen.latencies, run.now > entry->due ? run.now - entry->due : 0);
    entry->waiting = 0;
    run.under_way--;
}

void forget_lost(int all) {
    for (; run.tail < run.head; run.tail++) {
        struct live *oldest = &run.live[run.tail % run.slots];
        if (!oldest->waiting) continue;
        if (!all && run.now < oldest->due + oldest->lag * UINT64_C(1000) + run.patience) return;
        oldest->waiting = 0;
        oldest->lost = 1;
        run.under_way--;
        seen.counts[LOST]++;
    }
}
