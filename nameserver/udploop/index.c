/* The index of a zone: a hash table for each of its dicts. */
#include "udploop.h"

/* The interpreter's own hash of bytes: keyed by a secret, and the one that has put the name into its bucket. */
static Py_hash_t hash_of(const uint8_t *name, size_t size)
{
    Py_hash_t hash = PyHash_GetFuncDef()->hash(name, (Py_ssize_t)size);
    return hash == -1 ? -2 : hash;
}

static uint32_t first_slot(const Bucket *bucket, Py_hash_t hash)
{
    return (uint32_t)((size_t)hash / BUCKETS) & bucket->mask;
}

const Entry *index_find(const Index *index, const uint8_t *name, size_t size)
{
    Py_hash_t hash = hash_of(name, size);
    const Bucket *bucket = index->buckets[(size_t)hash % BUCKETS];
    for (uint32_t slot = first_slot(bucket, hash);; slot = (slot + 1) & bucket->mask) {
        if (!bucket->slots[slot])
            return NULL;
        const Entry *entry = &bucket->entries[bucket->slots[slot] - 1];
        if (entry->hash == hash && entry->size == size && !memcmp(entry->name, name, size))
            return entry;
    }
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
    PyMem_Free(bucket->entries);
    PyMem_Free(bucket);
}

static int wrong(const char *what)
{
    PyErr_Format(PyExc_TypeError, "a zone's %s isn't as the index knows it", what);
    return -1;
}

/* Read the bytes of `body`, which whoever called keeps alive. */
static int read_body(Records *records, PyObject *body, long count)
{
    if (!PyBytes_Check(body) || PyBytes_GET_SIZE(body) > UINT16_MAX || count < 0 || count > UINT16_MAX)
        return wrong("body");
    *records = (Records){(const uint8_t *)PyBytes_AS_STRING(body), (uint16_t)PyBytes_GET_SIZE(body), (uint16_t)count};
    return 0;
}

/* Read a Section (heads, body, rcode, answers, authority) or None. */
static int read_section(Records *records, PyObject *section)
{
    *records = (Records){NULL, 0, 0};
    if (section == Py_None)
        return 0;
    if (!PyTuple_Check(section) || PyTuple_GET_SIZE(section) != 5)
        return wrong("section");
    long count = PyLong_AsLong(PyTuple_GET_ITEM(section, 3));
    return PyErr_Occurred() ? -1 : read_body(records, PyTuple_GET_ITEM(section, 1), count);
}

/* Read a Node (a, aaaa, origin); `numbers` are those of the apexes by origin. */
static int read_node(Entry *entry, PyObject *name, PyObject *node, PyObject *numbers)
{
    if (!PyBytes_Check(name) || PyBytes_GET_SIZE(name) < 1 || PyBytes_GET_SIZE(name) > MAX_NAME)
        return wrong("name");
    if (!PyTuple_Check(node) || PyTuple_GET_SIZE(node) != 3)
        return wrong("node");
    PyObject *number = PyDict_GetItemWithError(numbers, PyTuple_GET_ITEM(node, 2));
    if (!number)
        return PyErr_Occurred() ? -1 : wrong("origin");
    entry->hash = PyObject_Hash(name);
    entry->name = (const uint8_t *)PyBytes_AS_STRING(name);
    entry->size = (uint8_t)PyBytes_GET_SIZE(name);
    entry->apex = (uint32_t)PyLong_AsUnsignedLong(number);
    if (read_section(&entry->a, PyTuple_GET_ITEM(node, 0)) < 0)
        return -1;
    return read_section(&entry->aaaa, PyTuple_GET_ITEM(node, 1));
}

static Bucket *bucket_new(PyObject *dict, PyObject *numbers)
{
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) > UINT32_MAX / 8) {
        wrong("bucket");
        return NULL;
    }
    size_t slots = 2;
    while (slots < 2 * (size_t)PyDict_GET_SIZE(dict))
        slots *= 2;
    Bucket *bucket = PyMem_Calloc(1, sizeof *bucket + slots * sizeof *bucket->slots);
    Entry *entries = PyMem_Calloc((size_t)PyDict_GET_SIZE(dict) + 1, sizeof *entries);
    if (!bucket || !entries) {
        PyMem_Free(bucket);
        PyMem_Free(entries);
        PyErr_NoMemory();
        return NULL;
    }
    *bucket = (Bucket){.dict = Py_NewRef(dict), .users = 1, .entries = entries, .mask = (uint32_t)slots - 1};
    PyObject *name, *node;
    uint32_t count = 0;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &name, &node);) {
        Entry *entry = &entries[count++];
        if (read_node(entry, name, node, numbers) < 0) {
            bucket_leave(bucket);
            return NULL;
        }
        int labels = labels_of(entry->name, entry->size);
        bucket->labels = labels > bucket->labels ? labels : bucket->labels;
        uint32_t slot = first_slot(bucket, entry->hash);
        while (bucket->slots[slot])
            slot = (slot + 1) & bucket->mask;
        bucket->slots[slot] = count;
    }
    return bucket;
}

/* Read the apexes; returns their numbers by origin. */
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
        if (read_body(&self->apex[each].nodata, nodata, 1) < 0 || read_body(&self->apex[each].nxdomain, nxdomain, 1) < 0)
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

/* Tell whether the apexes of `old` have the same origins in the same order, so that its buckets' numbers hold. */
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

/* Index(buckets, apexes, old): only the dicts that `old` doesn't know are read. */
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
