/* UDP: batches of datagrams, and packets from source port 0. */
#include "client.h"
#include <netinet/in.h>

static int sockets[MOST_SOCKETS], raw = -1;

struct batch {
    uint8_t messages[BATCH][MESSAGE];
    struct iovec parts[BATCH];
    struct mmsghdr headers[BATCH];
};

static void set_part(struct batch *batch, unsigned number, size_t length) {
    batch->parts[number] = (struct iovec){batch->messages[number], length};
    batch->headers[number].msg_hdr = (struct msghdr){.msg_iov = &batch->parts[number], .msg_iovlen = 1};
}

static void widen_buffer(int made) {
    int bytes = 4 << 20; /* room for a burst of answers; without root, the kernel may allow less */
    if (setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
        setsockopt(made, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

void open_udp(void) {
    for (unsigned i = 0; i < run.sockets; i++) {
        sockets[i] = socket(run.server.ss_family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        if (sockets[i] < 0) fail("socket");
        widen_buffer(sockets[i]);
        bind_source(sockets[i]);
        if (connect(sockets[i], (struct sockaddr *)&run.server, run.server_size)) fail("connect");
    }
}

/* Send a query from source port 0 by a raw socket. A socket for IPPROTO_RAW receives no copies of other packets. The
   kernel completes the IP header. */
static void send_portless(const struct query *query) {
    enum { IP = 20, HEADERS = IP + 8 };
    const struct sockaddr_in *to = (const struct sockaddr_in *)&run.server;
    uint8_t packet[HEADERS + MESSAGE] = {0x45, [8] = 64, IPPROTO_UDP};
    memcpy(packet + 16, &to->sin_addr, 4);
    memcpy(packet + IP + 2, &to->sin_port, 2);
    packet[IP + 4] = (uint8_t)((8 + query->length) >> 8);
    packet[IP + 5] = (uint8_t)(8 + query->length); /* the checksum, which comes next, stays 0: there is none */
    memcpy(packet + HEADERS, query->bytes, query->length);
    if (raw < 0 && (raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW)) < 0) fail("source port 0 needs a raw socket");
    ssize_t done = sendto(raw, packet, HEADERS + query->length, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof *to);
    if (done < 0 && errno != EAGAIN && errno != ENOBUFS) fail("sendto");
}

/* Send the first FILLED queries of the batch. A query that can't be sent will be counted as lost. */
static void send_batch(int through, struct batch *batch, unsigned filled) {
    for (unsigned done = 0; done < filled && !stopped;) {
        int some = sendmmsg(through, batch->headers + done, filled - done, 0);
        if (some > 0) done += (unsigned)some;
        else if (errno == ECONNREFUSED) seen.counts[REFUSED]++; /* the error of an earlier query: try again */
        else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) seen.counts[REFUSED]++, done++;
        else if (clock_ns() > run.now + run.patience) break;
    }
}

unsigned send_udp(unsigned wanted) {
    static struct batch batch;
    int through = sockets[socket_of(run.head % run.slots)];
    unsigned filled = 0, taken = 0;
    for (int full = 0; taken < wanted && !full; taken++) {
        const struct query *query = take(batch.messages[filled]);
        if (query->kind == PORTLESS) send_portless(query);
        else set_part(&batch, filled++, query->length);
        full = query->kind == ASKED && run.head % BATCH == 0;
    }
    send_batch(through, &batch, filled);
    return taken;
}

static unsigned receive_through(unsigned number) {
    static struct batch batch;
    for (unsigned i = 0; i < BATCH; i++) set_part(&batch, i, MESSAGE);
    int got = recvmmsg(sockets[number], batch.headers, BATCH, MSG_DONTWAIT, NULL);
    if (got < 0 && errno == ECONNREFUSED) seen.counts[REFUSED]++;
    if (got <= 0) return 0;
    run.now = clock_ns();
    for (int i = 0; i < got; i++) {
        const uint8_t *answer = batch.messages[i];
        if (batch.headers[i].msg_len < 12) seen.counts[UNEXPECTED]++;
        else if (number16(answer) >= IDS) seen.counts[MALFORMED_ANSWERED]++;
        else take_answer(slot_of(number, number16(answer)), answer, batch.headers[i].msg_len, 0);
    }
    return (unsigned)got;
}

unsigned receive_udp(void) {
    unsigned got = 0;
    for (unsigned i = 0; i < run.sockets; i++) got += receive_through(i);
    return got;
}

/* Return the number of answers so far that the kernel dropped because a socket's receive buffer was full. */
uint32_t own_drops(void) {
    uint32_t all = 0;
    for (unsigned i = 0; !run.connections && i < run.sockets; i++) {
        uint32_t memory[9] = {0};
        socklen_t size = sizeof memory;
        if (!getsockopt(sockets[i], SOL_SOCKET, SO_MEMINFO, memory, &size)) all += memory[8];
    }
    return all;
}
