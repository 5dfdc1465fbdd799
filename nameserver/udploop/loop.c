/* The loop, which receives, answers and sends many packets at a time; and the Python module. */
#include "udploop.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { BATCH = 64, QUERY_SIZE = 4096, CONTROL_SIZE = 64, DRAIN_PACKETS = 1000 };

typedef struct {
    _Alignas(struct cmsghdr) uint8_t control[CONTROL_SIZE];
    struct sockaddr_in6 client;  /* the larger of the two kinds */
    bool sampled;                /* Python answers and logs it */
    uint8_t bytes[QUERY_SIZE];   /* the query, and then in its place the response */
} Packet;

typedef struct {
    PyObject_HEAD
    int socket;
    PyObject *answer, *unsent;  /* Python's functions: one answers a query, the other counts an errno */
    unsigned sample_every, until_sample, chance;  /* Python answers and logs one of so many packets; 0: none */
    Py_buffer counts;
    Index *index;                       /* the index in use; no other thread reads this */
    _Atomic(Index *) next;              /* the index that the loop uses next */
    _Atomic(Index *) left;              /* the index that the loop used before, until it is freed */
    atomic_bool stopping;
    Packet *packets;
    struct iovec query_vectors[BATCH], response_vectors[BATCH];
    struct mmsghdr queries[BATCH], responses[BATCH];
    int received;  /* the number of `queries` that the last call filled */
    Name names[BATCH];
    int errors[BATCH];
    int error_count;
} Loop;

/* Use the newest index from now on. The index before it is freed at the next swap, by the thread that calls swap. */
static void take_index(Loop *self)
{
    Index *next = atomic_load(&self->next) ? atomic_exchange(&self->next, NULL) : NULL;
    if (!next)
        return;
    Index *before = atomic_exchange(&self->left, self->index);
    self->index = next;
    if (before) {  /* two new zones came in quick succession */
        PyGILState_STATE lock = PyGILState_Ensure();
        Py_DECREF(before);
        PyGILState_Release(lock);
    }
}

/* Prepare the control data so that the answer comes from the address that was asked; the route decides the interface. */
static void prepare_source(struct msghdr *query)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(query);
    if (!control)
        return;
    if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO &&
        control->cmsg_len == CMSG_LEN(sizeof(struct in_pktinfo)))
        ((struct in_pktinfo *)(void *)CMSG_DATA(control))->ipi_ifindex = 0;
    else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO &&
             control->cmsg_len == CMSG_LEN(sizeof(struct in6_pktinfo)))
        ((struct in6_pktinfo *)(void *)CMSG_DATA(control))->ipi6_ifindex = 0;
    else
        query->msg_controllen = 0;
}

/* Make the response in packet `from`, of `size` bytes, the `number`th one to be sent. */
static void queue_response(Loop *self, int number, int from, size_t size)
{
    const struct msghdr *query = &self->queries[from].msg_hdr;
    struct msghdr *response = &self->responses[number].msg_hdr;
    self->response_vectors[number] = (struct iovec){self->packets[from].bytes, size};
    response->msg_name = query->msg_name;
    response->msg_namelen = query->msg_namelen;
    response->msg_control = query->msg_controllen ? query->msg_control : NULL;
    response->msg_controllen = query->msg_controllen;
}

/* Send `count` responses. A response that can't be sent at once is skipped and its errno noted, because a full buffer may
 * stay full for seconds. */
static void send_responses(Loop *self, int count)
{
    for (int first = 0; first < count;) {
        int sent = sendmmsg(self->socket, self->responses + first, (unsigned)(count - first), MSG_DONTWAIT);
        if (sent > 0) {
            first += sent;
        } else if (errno != EINTR) {
            self->errors[self->error_count++] = errno;
            first++;
        }
    }
}

/* Let Python answer the packets with these `numbers`, and return the number of responses. The caller holds the GIL. */
static int ask_python(Loop *self, const int *numbers, int count)
{
    int responses = 0;
    for (int each = 0; each < count; each++) {
        Packet *packet = &self->packets[numbers[each]];
        Py_ssize_t size = (Py_ssize_t)self->queries[numbers[each]].msg_len;
        const char *client = packet->sampled ? (const char *)&packet->client : NULL;  /* NULL becomes None */
        PyObject *response = PyObject_CallFunction(
            self->answer, "y#y#", (const char *)packet->bytes, size, client, (Py_ssize_t)sizeof packet->client);
        if (!response) {
            PyErr_WriteUnraisable(self->answer);
        } else if (PyBytes_Check(response) && PyBytes_GET_SIZE(response) <= UDP_MAXIMUM) {
            memcpy(packet->bytes, PyBytes_AS_STRING(response), (size_t)PyBytes_GET_SIZE(response));
            queue_response(self, responses++, numbers[each], (size_t)PyBytes_GET_SIZE(response));
        }
        Py_XDECREF(response);
    }
    return responses;
}

/* Report the errors of sending to Python. The caller holds the GIL. */
static void tell_errors(Loop *self)
{
    for (int each = 0; each < self->error_count; each++) {
        PyObject *done = PyObject_CallFunction(self->unsent, "i", self->errors[each]);
        if (!done)
            PyErr_WriteUnraisable(self->unsent);
        Py_XDECREF(done);
    }
    self->error_count = 0;
}

/* Tell whether to log the next packet. Chance decides: clients ask for A and AAAA in pairs, and a fixed step could log
 * only one of these types. */
static bool is_sample(Loop *self)
{
    if (!self->sample_every || --self->until_sample)
        return false;
    self->chance = self->chance * 1664525u + 1013904223u;
    self->until_sample = 1 + (unsigned)((uint64_t)self->chance * (2ull * self->sample_every - 1) >> 32);
    return true;
}

/* Read the names in `count` packets, and prefetch their slots and entries into the processor's cache. */
static void read_names(Loop *self, int count)
{
    for (int each = 0; each < count; each++) {
        read_name(&self->names[each], self->packets[each].bytes, self->queries[each].msg_len);
        if (self->names[each].labels)
            index_fetch_slot(self->index, self->names[each].hash);
    }
    for (int each = 0; each < count; each++)
        if (self->names[each].labels)
            index_fetch_entry(self->index, self->names[each].hash);
}

/* Answer `count` packets: first the ordinary ones, then those that Python answers. */
static void answer_packets(Loop *self, int count, PyThreadState **thread)
{
    uint64_t *counts = self->counts.buf;
    int responses = 0, others = 0, numbers[BATCH];
    read_names(self, count);
    for (int each = 0; each < count; each++) {
        Packet *packet = &self->packets[each];
        int slot;
        prepare_source(&self->queries[each].msg_hdr);
        packet->sampled = is_sample(self);
        size_t received = self->queries[each].msg_len;
        size_t size = packet->sampled ? 0 :
            respond(self->index, &self->names[each], packet->bytes, received, packet->bytes, &slot);
        if (size) {
            counts[slot]++;
            queue_response(self, responses++, each, size);
        } else {
            numbers[others++] = each;
        }
    }
    send_responses(self, responses);
    if (others) {
        PyEval_RestoreThread(*thread);
        responses = ask_python(self, numbers, others);
        *thread = PyEval_SaveThread();
        send_responses(self, responses);
    }
    if (self->error_count) {
        PyEval_RestoreThread(*thread);
        tell_errors(self);
        *thread = PyEval_SaveThread();
    }
}

static int receive(Loop *self, int flags)
{
    for (int each = 0; each < self->received; each++) {
        self->queries[each].msg_hdr.msg_namelen = sizeof self->packets[each].client;
        self->queries[each].msg_hdr.msg_controllen = CONTROL_SIZE;
    }
    int count = recvmmsg(self->socket, self->queries, BATCH, flags, NULL);
    self->received = count > 0 ? count : 0;
    return count;
}

static PyObject *loop_serve(Loop *self, PyObject *drain)
{
    int draining = PyObject_IsTrue(drain), error = 0, answered = 0;
    if (draining < 0)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    while (!error && (draining ? answered < DRAIN_PACKETS : !atomic_load(&self->stopping))) {
        int count = receive(self, draining ? MSG_DONTWAIT : MSG_WAITFORONE);
        if (count >= 0) {
            take_index(self);
            answer_packets(self, count, &thread);
            answered += count;
        } else if (errno == EAGAIN && draining) {
            break;
        } else if (errno != EAGAIN && errno != EINTR) {
            error = errno;
        }
    }
    PyEval_RestoreThread(thread);
    if (error) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *loop_swap(Loop *self, PyObject *index)
{
    if (!Py_IS_TYPE(index, &IndexType))
        return PyErr_Format(PyExc_TypeError, "swap takes an Index");
    Py_XDECREF(atomic_exchange(&self->left, NULL));
    Py_XDECREF(atomic_exchange(&self->next, (Index *)Py_NewRef(index)));
    Py_RETURN_NONE;
}

static PyObject *loop_stop(Loop *self, PyObject *Py_UNUSED(nothing))
{
    atomic_store(&self->stopping, true);
    Py_RETURN_NONE;
}

/* Loop(socket, index, answer, unsent, counts, sample_every) */
static PyObject *loop_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    int descriptor;
    unsigned sample_every;
    PyObject *index, *answer, *unsent, *counts;
    if (keywords || !PyArg_ParseTuple(args, "iO!OOOI", &descriptor, &IndexType, &index, &answer, &unsent, &counts,
                                      &sample_every))
        return keywords ? PyErr_Format(PyExc_TypeError, "Loop takes no keywords") : NULL;
    Loop *self = (Loop *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->socket = descriptor;
    self->index = (Index *)Py_NewRef(index);
    self->answer = Py_NewRef(answer);
    self->unsent = Py_NewRef(unsent);
    self->sample_every = sample_every;
    self->until_sample = 1;
    atomic_init(&self->next, NULL);
    atomic_init(&self->left, NULL);
    atomic_init(&self->stopping, false);
    if (PyObject_GetBuffer(counts, &self->counts, PyBUF_WRITABLE) < 0)
        goto failed;
    if (self->counts.len != COUNTS * (Py_ssize_t)sizeof(uint64_t)) {
        PyErr_Format(PyExc_TypeError, "Loop counts in %d numbers of 8 bytes", COUNTS);
        goto failed;
    }
    if (!(self->packets = PyMem_Calloc(BATCH, sizeof *self->packets))) {
        PyErr_NoMemory();
        goto failed;
    }
    for (int each = 0; each < BATCH; each++) {
        Packet *packet = &self->packets[each];
        self->query_vectors[each] = (struct iovec){packet->bytes, QUERY_SIZE};
        self->queries[each].msg_hdr = (struct msghdr){
            .msg_name = &packet->client,
            .msg_namelen = sizeof packet->client,
            .msg_iov = &self->query_vectors[each],
            .msg_iovlen = 1,
            .msg_control = packet->control,
            .msg_controllen = CONTROL_SIZE,
        };
        self->responses[each].msg_hdr = (struct msghdr){.msg_iov = &self->response_vectors[each], .msg_iovlen = 1};
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static int loop_traverse(Loop *self, visitproc visit, void *arg)
{
    Py_VISIT(self->answer);
    Py_VISIT(self->unsent);
    return 0;
}

static int loop_clear(Loop *self)
{
    Py_CLEAR(self->answer);
    Py_CLEAR(self->unsent);
    return 0;
}

static void loop_dealloc(Loop *self)
{
    PyObject_GC_UnTrack(self);
    loop_clear(self);
    Py_XDECREF(self->index);
    Py_XDECREF(atomic_load(&self->next));
    Py_XDECREF(atomic_load(&self->left));
    PyBuffer_Release(&self->counts);
    PyMem_Free(self->packets);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef loop_methods[] = {
    {"serve", (PyCFunction)loop_serve, METH_O, "Answer until a stop, or, to drain, what has come; raises OSError."},
    {"swap", (PyCFunction)loop_swap, METH_O, "Answer from another Index from the next packet on."},
    {"stop", (PyCFunction)loop_stop, METH_NOARGS, "Have serve return once it wakes."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject LoopType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tsnameserver._udploop.Loop",
    .tp_doc = "Answers what comes to one socket.",
    .tp_basicsize = sizeof(Loop),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = loop_new,
    .tp_traverse = (traverseproc)loop_traverse,
    .tp_clear = (inquiry)loop_clear,
    .tp_dealloc = (destructor)loop_dealloc,
    .tp_methods = loop_methods,
};

/* ---- The module ---- */

/* answer(index, query) returns the loop's response and the slot that counts it; None if the query is left to Python. The
 * query is copied into memory of just its size, so that AddressSanitizer sees each read past its end. */
static PyObject *module_answer(PyObject *Py_UNUSED(module), PyObject *args)
{
    Index *index;
    Py_buffer query;
    uint8_t response[UDP_MAXIMUM];
    Name name;
    int slot;
    if (!PyArg_ParseTuple(args, "O!y*", &IndexType, &index, &query))
        return NULL;
    uint8_t *copy = malloc(query.len ? (size_t)query.len : 1);
    size_t size = 0;
    if (copy) {
        memcpy(copy, query.buf, (size_t)query.len);
        read_name(&name, copy, (size_t)query.len);
        size = respond(index, &name, copy, (size_t)query.len, response, &slot);
    }
    free(copy);
    PyBuffer_Release(&query);
    if (!copy)
        return PyErr_NoMemory();
    if (!size)
        Py_RETURN_NONE;
    return Py_BuildValue("y#i", (const char *)response, (Py_ssize_t)size, slot);
}

static PyMethodDef module_methods[] = {
    {"answer", module_answer, METH_VARARGS, "Return what a Loop answers to a query and where it counts it, or None."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tsnameserver._udploop",
    .m_doc = "The UDP loop without the interpreter.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__udploop(void)
{
    PyObject *self = PyModule_Create(&module);
    if (self && (PyModule_AddType(self, &IndexType) < 0 || PyModule_AddType(self, &LoopType) < 0))
        Py_CLEAR(self);
    return self;
}
