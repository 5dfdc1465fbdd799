/* The reports of the client: lines of JSON, each with the counts since the previous line. */
#include "client.h"
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum { EXAMPLES = 10 };
static const char *const COUNT_NAMES[] = {
    "sent", "right", "truncated", "wrong", "lost", "late", "unexpected", "malformed_sent", "malformed_answered", "refused",
    "connections_failed", "client_drops", "unsent", "retried"};
static const char *const FAULT_NAMES[] = {
    "", "", "question", "not a response", "rcode", "not authoritative", "truncated", "addresses", "malformed"};
static struct { size_t place, length; uint8_t bytes[MESSAGE]; } examples[EXAMPLES];
static unsigned example_count, examples_said;
static double cpu_before;
static uint32_t drops_before;

uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

/* Count a duration of NS in the same bucket as Histogram in histogram.py does. */
void count_duration(uint64_t *histogram, uint64_t ns) {
    if (ns >> LONGEST) ns = (UINT64_C(1) << LONGEST) - 1;
    unsigned bits = ns ? 64 - (unsigned)__builtin_clzll(ns) : 0, shift = bits > 9 ? bits - 9 : 0;
    histogram[shift * STEPS + (unsigned)(ns >> shift)]++;
}

/* Store a wrong answer with the number of its QUERY, if it is one of the first. */
void keep_example(const struct query *query, const uint8_t *answer, size_t length) {
    if (example_count == EXAMPLES) return;
    examples[example_count].place = (size_t)(query - run.queries);
    examples[example_count].length = length < MESSAGE ? length : MESSAGE;
    memcpy(examples[example_count].bytes, answer, examples[example_count].length);
    example_count++;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void print_histogram(const char *name, const uint64_t *histogram) {
    const char *comma = "";
    printf(",\"%s\":[", name);
    for (unsigned i = 0; i < BUCKETS; i++)
        if (histogram[i]) printf("%s[%u,%" PRIu64 "]", comma, i, histogram[i]), comma = ",";
    printf("]");
}

static void print_counts(const char *name, const char *const *names, const uint64_t *numbers, unsigned count) {
    const char *comma = "";
    printf(",\"%s\":{", name);
    for (unsigned i = 0; i < count; i++) {
        if (!numbers[i]) continue;
        if (names) printf("%s\"%s\":%" PRIu64, comma, names[i], numbers[i]);
        else printf("%s\"%u\":%" PRIu64, comma, i, numbers[i]);
        comma = ",";
    }
    printf("}");
}

static void print_examples(void) {
    printf(",\"examples\":[");
    for (const char *comma = ""; examples_said < example_count; examples_said++, comma = ",") {
        printf("%s[%zu,\"", comma, examples[examples_said].place);
        for (size_t at = 0; at < examples[examples_said].length; at++) printf("%02x", examples[examples_said].bytes[at]);
        printf("\"]");
    }
    printf("]");
}

/* Print a report. SECONDS is the time in which queries were sent so far, and DROPS the result of own_drops. */
void report(double seconds, uint32_t drops, int is_last) {
    double cpu = cpu_seconds();
    seen.counts[CLIENT_DROPS] = drops - drops_before;
    printf("{\"last\":%s,\"elapsed\":%.6f,\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"idle_seconds\":%.6f",
           is_last ? "true" : "false", (double)(run.now - run.started) / 1e9, seconds, cpu - cpu_before, (double)seen.idle / 1e9);
    printf(",\"gap_ns\":%" PRIu64 ",\"own_gap_ns\":%" PRIu64, seen.longest_gap, seen.own_gap);
    print_counts("counts", COUNT_NAMES, seen.counts, COUNTS);
    print_counts("rcodes", NULL, seen.rcodes, 16);
    print_counts("reasons", FAULT_NAMES, seen.faults, FAULTS);
    print_histogram("latency", seen.latencies);
    print_histogram("lag", seen.lags);
    print_examples();
    printf("}\n");
    fflush(stdout);
    memset(&seen, 0, sizeof seen);
    cpu_before = cpu;
    drops_before = drops;
}
