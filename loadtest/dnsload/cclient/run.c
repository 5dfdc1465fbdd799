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
   total=N                    without rates: so many queries are sent at most (0 is no end)
   source=ADDRESS             the address from which they are sent
   retry=1                    a query whose UDP answer is truncated is asked again over a TCP connection of its own

   QUERIES are records: query length (2 bytes), kind, expected rcode, length of each expected address, their number, the
   query, the addresses. An rcode of 255 is any of NOERROR and NXDOMAIN; a number of 255 is any addresses.
   It prints lines of JSON: what was counted since the last line. Examples of wrong answers have the number of their query.
   It never sleeps: a thread that is woken late would count its own delay as the server's. */
#include "client.h"
#include <math.h>

#define GRACE (SECOND / 5) /* a client that lags at the end may still send for so long */

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
    if (run.head - run.tail + BATCH > run.slots) return 0; /* all IDs are under way */
    return due <= run.out ? 0 : due - run.out < BATCH ? (unsigned)(due - run.out) : BATCH;
}

/* Send what is due and take what has come; returns whether there was something to do. */
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
    if (signal(SIGINT, SIG_IGN) != SIG_IGN) signal(SIGINT, stop); /* shells ignore it for commands in the background */
    signal(SIGTERM, stop);
    run_all();
    return 0;
}
