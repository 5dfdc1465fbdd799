package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	beat       = time.Second // between acknowledgements, which come although there is nothing new, too
	incomplete = ".part"
)

// faults are what a test wants a recorder to do wrong, or in another way.
type faults struct {
	Hangs    bool   `json:"hangs"`    // it reads nothing, and answers nothing
	Silent   bool   `json:"silent"`   // it acknowledges nothing
	Failure  string `json:"failure"`  // it ends all recordings with these words, and takes no recordings and events
	First    bool   `json:"first"`    // it knows the first version alone, which has neither HTTP/2 nor events
	NoEvents bool   `json:"noEvents"` // it knows no events
	Drops    bool   `json:"drops"`    // it keeps nothing of what it gets
}

// recorder keeps recordings and events in files. The name of a file begins with the time, and ends with incomplete until
// the sender has said that it is whole.
type recorder struct {
	folder string

	mu      sync.Mutex
	faults  faults
	changed chan struct{} // is closed when there are other faults
}

func newRecorder(folder string) *recorder {
	return &recorder{folder: folder, changed: make(chan struct{})}
}

// handler serves the paths of tsrecorder, and for tests those below /testbed.
func (r *recorder) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("HEAD /v2/record", r.probe(func(now faults) bool { return !now.First }))
	mux.HandleFunc("POST /v2/record", r.take("-v2.cast"))
	mux.HandleFunc("POST /record", r.take("-v1.cast"))
	mux.HandleFunc("HEAD /v2/event", r.probe(func(now faults) bool { return !now.First && !now.NoEvents }))
	mux.HandleFunc("POST /v2/event", r.take(".json"))
	mux.HandleFunc("PUT /testbed/faults", r.replaceFaults)
	mux.HandleFunc("GET /testbed/recordings", r.list)
	mux.HandleFunc("DELETE /testbed/recordings", r.forget)
	mux.Handle("GET /testbed/recordings/", http.StripPrefix("/testbed/recordings", http.FileServer(http.Dir(r.folder))))
	return mux
}

// probe answers whether the recorder knows something.
func (r *recorder) probe(knows func(faults) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if now, err := r.ready(req.Context()); err == nil && !knows(now) {
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

// take stores the body of a request in a file whose name ends with suffix. By HTTP/2 it acknowledges the bytes so far,
// again and again.
func (r *recorder) take(suffix string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		now, err := r.ready(req.Context())
		if err != nil {
			return
		}
		if now.Failure != "" {
			http.Error(w, now.Failure, http.StatusInternalServerError)
			return
		}
		control := http.NewResponseController(w)
		control.EnableFullDuplex() // by HTTP/1.1, an early answer would wait for the rest of the body
		acknowledge := func(int64) error { return nil }
		if req.ProtoMajor > 1 {
			w.WriteHeader(http.StatusOK)
			control.Flush()
			acknowledge = func(stored int64) error {
				return errors.Join(json.NewEncoder(w).Encode(map[string]int64{"ack": stored}), control.Flush())
			}
		}
		pieces, ended := make(chan []byte), make(chan error, 1)
		go read(req.Context(), req.Body, pieces, ended)
		name := filepath.Join(r.folder, fmt.Sprintf("%d%s", time.Now().UnixNano(), suffix))
		size, err := r.write(req.Context(), name, pieces, acknowledge)
		if err == nil {
			err = <-ended
		} else {
			control.SetReadDeadline(time.Now()) // ends the reader
		}
		if err == nil {
			err = r.complete(name)
		}
		log.Printf("%s by %s: %d bytes, %v", req.URL.Path, req.Proto, size, err)
		if err != nil && req.ProtoMajor > 1 {
			json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// read hands on a body piece by piece, and tells how it ended.
func read(ctx context.Context, body io.Reader, pieces chan<- []byte, ended chan<- error) {
	defer close(pieces)
	for {
		piece := make([]byte, 1<<15)
		n, err := body.Read(piece)
		select {
		case pieces <- piece[:n]:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			continue
		}
		ended <- err
		return
	}
}

// write stores all pieces in a new file, and returns how many bytes there are.
func (r *recorder) write(
	ctx context.Context, name string, pieces <-chan []byte, acknowledge func(int64) error,
) (size int64, err error) {
	file, err := os.Create(name + incomplete)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		now, changed := r.look()
		incoming, beats := pieces, ticker.C
		if now.Failure != "" {
			return size, errors.New(now.Failure)
		}
		if now.Hangs {
			incoming, beats = nil, nil
		}
		select {
		case piece, more := <-incoming:
			if !more {
				return size, nil
			}
			size += int64(len(piece))
			if now.Drops {
				continue
			}
			if _, err := file.Write(piece); err != nil {
				return size, err
			}
		case <-beats:
			if now.Silent {
				continue
			}
			if err := acknowledge(size); err != nil {
				return size, err
			}
		case <-changed:
		case <-ctx.Done():
			return size, ctx.Err()
		}
	}
}

// complete gives a file that is whole its name.
func (r *recorder) complete(name string) error {
	if now, _ := r.look(); now.Drops {
		return os.Remove(name + incomplete)
	}
	return os.Rename(name+incomplete, name)
}

// look returns the faults now, and a channel that is closed when there are others.
func (r *recorder) look() (faults, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults, r.changed
}

// ready returns the faults as soon as the recorder doesn't hang.
func (r *recorder) ready(ctx context.Context) (faults, error) {
	for {
		now, changed := r.look()
		if !now.Hangs {
			return now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// replaceFaults sets the faults in a request, and takes away all others.
func (r *recorder) replaceFaults(w http.ResponseWriter, req *http.Request) {
	var now faults
	decoder := json.NewDecoder(req.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&now); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = now
	close(r.changed)
	r.changed = make(chan struct{})
}

// list answers with the names of all files, in the order of time.
func (r *recorder) list(w http.ResponseWriter, _ *http.Request) {
	names := []string{}
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	json.NewEncoder(w).Encode(names)
}

// forget removes all files that are whole.
func (r *recorder) forget(w http.ResponseWriter, _ *http.Request) {
	entries, err := os.ReadDir(r.folder)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), incomplete) {
			continue
		}
		if failure := os.Remove(filepath.Join(r.folder, entry.Name())); !errors.Is(failure, fs.ErrNotExist) {
			err = errors.Join(err, failure)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
