/* Sends DNS queries to one server, at given rates or as fast as the server answers, and checks every answer. client.py
   starts this program and reads its reports.

   usage: client NAME=VALUE... < QUERIES
   host=ADDRESS port=NUMBER   the server
   seconds=S                  the time for which it sends queries
   rates=FIRST-LAST,...       queries a second, however slow the answers are: in stretches of equal length, each from
                              the FIRST to the LAST rate
   outstanding=N              without rates: the number of outstanding queries; the TCP connections share it equally
   sockets=N                  the number of UDP sockets (default: 1)
   connections=N              the number of TCP connections (default: 0, which means UDP)
   each=N                     the number of queries after which a new connection replaces an old one (0: never)
   patience=S                 the time after which a query without an answer is lost (default: 1)
   every=S                    the time between two reports (0: a single report at the end)
   authoritative=1            an answer without the flag AA is wrong
   total=N                    without rates: the greatest number of queries to send (0: no limit)
   source=ADDRESS             the address from which it sends
   retry=1                    if the answer by UDP is truncated, it repeats the query on a new TCP connection

   QUERIES are records: the length of the query (2 bytes), its kind, the expected rcode, the length of each expected
   address, the number of these addresses, the query, and the addresses. The rcode 255 stands for NOERROR or NXDOMAIN,
   and the number 255 for any addresses.

   The program prints lines of JSON, each with the counts since the previous line. Examples of wrong answers have the
   number of their query. The program never sleeps: it would count the delay of a late wake-up as the server's. */
#include "client.h"
#include <math.h>

#define GRACE (SECOND / 5) /* the time after the end in which a client that lags may still send */

volatile sig_atomic_t stopped;

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static unsigned wanted(void) {
    uint64_t due, room = (uint64_t)options.outstanding;
    if (run.stretches) due = due_now();
    else due = run.under_way < room ? run.out + room - run.under_way : run.out;
    if (!run.stretches && options.total > 0 && due > options.total) due = (uint64_t)options.total;
    if (run.head - run.tail + BATCH > run.slots) return 0; /* all IDs are in use */
    return due <= run.out ? 0 : due - run.out < BATCH ? (unsigned)(due - run.out) : BATCH;
}

/* Send the queries that are due, and take the answers that have come. Return 1 if there were any, otherwise 0. */
static int work(void) {
    unsigned count = run.is_sending ? wanted() : 0, done = 0;
    if (count) done = run.connections ? send_tcp(count) : send_udp(count);
    if (!run.connections) done += receive_udp();
    done += receive_tcp();
    forget_lost(0);
    return done > 0;
}

static void run_all(void) {
    uint64_t length = (uint64_t)(options.seconds * SECOND), every = (uint64_t)(options.every * SECOND), next_report = every;
    uint64_t all = (uint64_t)llrint(due_within(length)), ended = 0, before;
    run.started = run.last_answer = run.now = clock_ns();
    run.is_sending = 1;
    while (!stopped && (run.is_sending || (run.under_way && run.now < ended + run.patience + SECOND))) {
        before = run.now;
        int worked = work();
        run.now = clock_ns();
        uint64_t elapsed = run.now - run.started;
        if (run.is_sending) {
            ended = run.now;
            if (!worked) seen.idle += run.now - before;
            if (run.now - before > seen.own_gap) seen.own_gap = run.now - before;
            run.is_sending = elapsed < length || (run.out < all && elapsed < length + GRACE);
            if (!run.stretches && options.total > 0 && run.out >= options.total) run.is_sending = 0;
        }
        if (every && elapsed >= next_report) {
            report((double)(ended - run.started) / 1e9, own_drops(), 0);
            next_report += every;
        }
    }
    if (!stopped) forget_lost(1);
    uint64_t due = run.stretches ? due_now() : 0;
    seen.counts[UNSENT] += due > run.out ? due - run.out : 0;
    report((double)(ended - run.started) / 1e9, own_drops(), 1);
}

int main(int count, char **words) {
    read_options(count, words);
    read_rates();
    read_queries();
    run.slots = (uint64_t)IDS * run.sockets;
    run.live = allocated(run.slots, sizeof *run.live);
    open_tcp();
    if (!run.connections) open_udp();
    if (signal(SIGINT, SIG_IGN) != SIG_IGN) signal(SIGINT, stop); /* a shell sets SIG_IGN for a background command */
    signal(SIGTERM, stop);
    run_all();
    return 0;
}
