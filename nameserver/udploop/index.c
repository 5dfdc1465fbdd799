/* The index of a zone: a hash table for each of its dicts. */
#include "udploop.h"

#include <stddef.h>
#include <stdlib.h>

/* Return Python's hash of bytes, which depends on a random secret. The hash decides in which bucket a name is. */
Py_hash_t index_hash(const uint8_t *name, size_t size)
{
    Py_hash_t hash = PyHash_GetFuncDef()->hash(name, (Py_ssize_t)size);
    return hash == -1 ? -2 : hash;
}

static uint32_t first_slot(const Bucket *bucket, Py_hash_t hash)
{
    return (uint32_t)((size_t)hash / BUCKETS) & bucket->mask;
}

static uint32_t upper_half(Py_hash_t hash)
{
    return (uint32_t)((uint64_t)hash >> 32);
}

static const Bucket *bucket_of(const Index *index, Py_hash_t hash)
{
    return index->buckets[(size_t)hash % BUCKETS];
}

void index_fetch_slot(const Index *index, Py_hash_t hash)
{
    const Bucket *bucket = bucket_of(index, hash);
    __builtin_prefetch(&bucket->slots[first_slot(bucket, hash)]);
}

void index_fetch_entry(const Index *index, Py_hash_t hash)
{
    const Bucket *bucket = bucket_of(index, hash);
    __builtin_prefetch((const uint8_t *)bucket + bucket->slots[first_slot(bucket, hash)].entry);
}

const Entry *index_find(const Index *index, const uint8_t *name, size_t size, Py_hash_t hash)
{
    const Bucket *bucket = bucket_of(index, hash);
    for (uint32_t each = first_slot(bucket, hash);; each = (each + 1) & bucket->mask) {
        const Slot *slot = &bucket->slots[each];
        if (!slot->entry)
            return NULL;
        const Entry *entry = (const void *)((const uint8_t *)bucket + slot->entry);
        if (slot->hash == upper_half(hash) && entry->size == size && !memcmp(entry->bytes, name, size))
            return entry;
    }
}

static size_t stored(size_t size)
{
    return size > UDP_MAXIMUM ? 0 : size;
}

Records entry_records(const Entry *entry, bool aaaa)
{
    const uint8_t *start = entry->bytes + entry->size;
    return aaaa ? (Records){start + stored(entry->a_size), entry->aaaa_size} : (Records){start, entry->a_size};
}

static int labels_of(const uint8_t *name, size_t size)
{
    int labels = 0;
    for (size_t at = 0; at < size && name[at]; at += name[at] + 1u)
        labels++;
    return labels;
}

static void bucket_leave(Bucket *bucket)
{
    if (!bucket || --bucket->users)
        return;
    Py_DECREF(bucket->dict);
    free(bucket);
}

static int wrong(const char *what)
{
    PyErr_Format(PyExc_TypeError, "a zone's %s isn't as the index knows it", what);
    return -1;
}

/* Read compiled records. The caller keeps their bytes alive. */
static int read_records(Records *records, PyObject *body)
{
    if (!PyBytes_Check(body) || PyBytes_GET_SIZE(body) > UINT16_MAX)
        return wrong("records");
    *records = (Records){(const uint8_t *)PyBytes_AS_STRING(body), (uint16_t)PyBytes_GET_SIZE(body)};
    return 0;
}

/* A name and its records as they are read, before they are written as an Entry. */
typedef struct {
    const uint8_t *name;
    size_t size;
    Records a, aaaa;
    uint32_t apex;
} Named;

/* Read a Node (a, aaaa, origin). `numbers` are the numbers of the apexes, by origin. */
static int read_node(Named *named, PyObject *name, PyObject *node, PyObject *numbers)
{
    if (!PyBytes_Check(name) || PyBytes_GET_SIZE(name) < 1 || PyBytes_GET_SIZE(name) > MAX_NAME)
        return wrong("name");
    if (!PyTuple_Check(node) || PyTuple_GET_SIZE(node) != 3)
        return wrong("node");
    PyObject *number = PyDict_GetItemWithError(numbers, PyTuple_GET_ITEM(node, 2));
    if (!number)
        return PyErr_Occurred() ? -1 : wrong("origin");
    named->name = (const uint8_t *)PyBytes_AS_STRING(name);
    named->size = (size_t)PyBytes_GET_SIZE(name);
    named->apex = (uint32_t)PyLong_AsUnsignedLong(number);
    if (read_records(&named->a, PyTuple_GET_ITEM(node, 0)) < 0)
        return -1;
    return read_records(&named->aaaa, PyTuple_GET_ITEM(node, 1));
}

/* Return the offset of the next entry, after `end`. If it would cross a cache line, it goes to the next line. */
static size_t place(size_t end, const Named *named, size_t *after)
{
    size_t size = offsetof(Entry, bytes) + named->size + stored(named->a.size) + stored(named->aaaa.size);
    size_t start = (end + _Alignof(Entry) - 1) / _Alignof(Entry) * _Alignof(Entry);
    if (start / LINE != (start + size - 1) / LINE)
        start = (start + LINE - 1) / LINE * LINE;
    *after = start + size;
    return start;
}

/* Write an entry at the offset `start` of a bucket, and write the offset into the first free slot for its hash. */
static void lay_down(Bucket *bucket, size_t start, const Named *named)
{
    Entry *entry = (void *)((uint8_t *)bucket + start);
    entry->apex = named->apex;
    entry->a_size = named->a.size;
    entry->aaaa_size = named->aaaa.size;
    entry->size = (uint8_t)named->size;
    uint8_t *bytes = entry->bytes;
    memcpy(bytes, named->name, named->size);
    bytes += named->size;
    if (stored(named->a.size))
        memcpy(bytes, named->a.start, named->a.size);
    bytes += stored(named->a.size);
    if (stored(named->aaaa.size))
        memcpy(bytes, named->aaaa.start, named->aaaa.size);

    Py_hash_t hash = index_hash(named->name, named->size);
    uint32_t each = first_slot(bucket, hash);
    while (bucket->slots[each].entry)
        each = (each + 1) & bucket->mask;
    bucket->slots[each] = (Slot){upper_half(hash), (uint32_t)start};
    int labels = labels_of(named->name, named->size);
    bucket->labels = labels > bucket->labels ? labels : bucket->labels;
}

/* Read the names of a dict, and return the offset after the last entry. If there is a bucket (`size` bytes), write the
 * entries into it. */
static size_t read_dict(PyObject *dict, PyObject *numbers, Bucket *bucket, size_t end, size_t size)
{
    PyObject *name, *node;
    Named named;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &name, &node);) {
        if (read_node(&named, name, node, numbers) < 0)
            return 0;
        size_t start = place(end, &named, &end);
        if (bucket && end <= size)
            lay_down(bucket, start, &named);
    }
    return end;
}

static Bucket *bucket_new(PyObject *dict, PyObject *numbers)
{
    if (!PyDict_Check(dict)) {
        wrong("bucket");
        return NULL;
    }
    size_t slots = 2;
    while (slots < 2 * (size_t)PyDict_GET_SIZE(dict))
        slots *= 2;
    size_t begin = sizeof(Bucket) + slots * sizeof(Slot);
    size_t size = read_dict(dict, numbers, NULL, begin, 0);
    if (!size)
        return NULL;
    size = (size + LINE - 1) / LINE * LINE;
    Bucket *bucket = size > UINT32_MAX ? NULL : aligned_alloc(LINE, size);
    if (!bucket) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(bucket, 0, size);
    bucket->dict = Py_NewRef(dict);
    bucket->users = 1;
    bucket->mask = (uint32_t)slots - 1;
    if (!read_dict(dict, numbers, bucket, begin, size)) {
        bucket_leave(bucket);
        return NULL;
    }
    return bucket;
}

/* Read the apexes, and return their numbers by origin. */
static PyObject *read_apexes(Index *self)
{
    Py_ssize_t count = PyTuple_GET_SIZE(self->apexes);
    PyObject *numbers = PyDict_New();
    self->apex = PyMem_Calloc((size_t)count + 1, sizeof *self->apex);
    if (!numbers || !self->apex)
        goto failed;
    for (Py_ssize_t each = 0; each < count; each++) {
        PyObject *origin, *nodata, *nxdomain, *number;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(self->apexes, each), "SSS", &origin, &nodata, &nxdomain))
            goto failed;
        if (read_records(&self->apex[each].nodata, nodata) < 0 || read_records(&self->apex[each].nxdomain, nxdomain) < 0)
            goto failed;
        if (!(number = PyLong_FromSsize_t(each)))
            goto failed;
        int set = PyDict_SetItem(numbers, origin, number);
        Py_DECREF(number);
        if (set < 0)
            goto failed;
    }
    return numbers;
failed:
    Py_XDECREF(numbers);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

/* Tell whether `old` has the same origins in the same order. If so, the numbers of apexes in its buckets stay right. */
static bool has_origins_of(const Index *self, const Index *old)
{
    Py_ssize_t count = PyTuple_GET_SIZE(self->apexes);
    if (PyTuple_GET_SIZE(old->apexes) != count)
        return false;
    for (Py_ssize_t each = 0; each < count; each++) {
        PyObject *mine = PyTuple_GET_ITEM(PyTuple_GET_ITEM(self->apexes, each), 0);
        PyObject *other = PyTuple_GET_ITEM(PyTuple_GET_ITEM(old->apexes, each), 0);
        Py_ssize_t size = PyBytes_GET_SIZE(mine);
        if (size != PyBytes_GET_SIZE(other) || memcmp(PyBytes_AS_STRING(mine), PyBytes_AS_STRING(other), (size_t)size))
            return false;
    }
    return true;
}

/* Index(buckets, apexes, old). Dicts that `old` has, too, aren't read again. */
static PyObject *index_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *dicts, *apexes, *given;
    if (keywords || !PyArg_ParseTuple(args, "O!O!O", &PyTuple_Type, &dicts, &PyTuple_Type, &apexes, &given))
        return keywords ? PyErr_Format(PyExc_TypeError, "Index takes no keywords") : NULL;
    if (PyTuple_GET_SIZE(dicts) != BUCKETS || (given != Py_None && !Py_IS_TYPE(given, &IndexType)))
        return PyErr_Format(PyExc_TypeError, "Index takes the zone's %d dicts, and an Index or None", BUCKETS);
    Index *self = (Index *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->apexes = Py_NewRef(apexes);
    PyObject *numbers = read_apexes(self);
    if (!numbers) {
        Py_DECREF(self);
        return NULL;
    }
    const Index *old = given != Py_None && has_origins_of(self, (Index *)given) ? (Index *)given : NULL;
    for (int each = 0; each < BUCKETS; each++) {
        PyObject *dict = PyTuple_GET_ITEM(dicts, each);
        if (old && old->buckets[each]->dict == dict) {
            self->buckets[each] = old->buckets[each];
            self->buckets[each]->users++;
        } else if (!(self->buckets[each] = bucket_new(dict, numbers))) {
            Py_DECREF(numbers);
            Py_DECREF(self);
            return NULL;
        }
        int labels = self->buckets[each]->labels;
        self->labels = labels > self->labels ? labels : self->labels;
    }
    Py_DECREF(numbers);
    return (PyObject *)self;
}

static void index_dealloc(Index *self)
{
    for (int each = 0; each < BUCKETS; each++)
        bucket_leave(self->buckets[each]);
    PyMem_Free(self->apex);
    Py_XDECREF(self->apexes);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject IndexType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tsnameserver._udploop.Index",
    .tp_doc = "Finds the compiled records of a zone by name.",
    .tp_basicsize = sizeof(Index),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = index_new,
    .tp_dealloc = (destructor)index_dealloc,
};
