// Recorder is a stand-in for Tailscale's tsrecorder, which isn't open source: it takes the same environment and the
// same requests, and writes what it gets into files. It has no S3 client, and a list of files in place of the UI.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tailscale.com/ipn"
	"tailscale.com/ipn/store"
	_ "tailscale.com/ipn/store/kubestore"
	"tailscale.com/kube/authkey"
	"tailscale.com/kube/kubeclient"
	"tailscale.com/tsnet"
	"tailscale.com/types/logger"
)

const (
	recordings   = "/data/recordings"
	fieldManager = "tsrecorder"
)

func main() {
	ctx := context.Background()
	folder := destination()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		log.Fatal(err)
	}
	state, err := store.New(log.Printf, os.Getenv("TS_STATE"))
	if err != nil {
		log.Fatalf("TS_STATE: %v", err)
	}
	key := authKey()
	server := &tsnet.Server{
		Dir:        os.TempDir(),
		Store:      state,
		Hostname:   os.Getenv("TSRECORDER_HOSTNAME"),
		ControlURL: os.Getenv("TSRECORDER_LOGIN_SERVER"),
		AuthKey:    key,
		Logf:       logger.Discard,
		UserLogf:   log.Printf,
	}
	if err := join(ctx, server); errors.Is(err, context.DeadlineExceeded) && key != "" {
		log.Fatalf("the control server doesn't answer: %v", err)
	} else if err != nil {
		log.Printf("can't join the tailnet: %v", err)
		awaitKey(ctx, key)
	}
	log.Printf("joined the tailnet as %s", server.CertDomains())
	go serve(server, folder)
	awaitLogout(ctx, server)
	log.Printf("the tailnet has removed this device")
	awaitKey(ctx, key)
}

// join waits until the server is in the tailnet. Without a key nothing ends the wait but the time limit.
func join(ctx context.Context, server *tsnet.Server) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := server.Up(ctx)
	return err
}

// destination returns the folder for recordings, whatever TSRECORDER_DST says of S3.
func destination() string {
	given := os.Getenv("TSRECORDER_DST")
	if given == "" {
		log.Fatal("TSRECORDER_DST is required")
	}
	if !strings.HasPrefix(given, "s3://") {
		return given
	}
	bucket := os.Getenv("TSRECORDER_BUCKET")
	if bucket == "" {
		log.Fatal("TSRECORDER_BUCKET is required")
	}
	_, found := os.LookupEnv("AWS_ACCESS_KEY_ID")
	log.Printf("S3 is %s with bucket %s and credentials %t: writing into %s instead", given, bucket, found, recordings)
	return recordings
}

// authKey returns the auth key in the file that TS_AUTHKEY_FILE names; it is empty without one.
func authKey() string {
	content, err := os.ReadFile(os.Getenv("TS_AUTHKEY_FILE"))
	if err != nil {
		log.Printf("TS_AUTHKEY_FILE: %v", err)
	}
	return strings.TrimSpace(string(content))
}

// awaitLogout returns when the control server takes the node key no more.
func awaitLogout(ctx context.Context, server *tsnet.Server) {
	client, err := server.LocalClient()
	if err != nil {
		log.Fatal(err)
	}
	watcher, err := client.WatchIPNBus(ctx, ipn.NotifyInitialState)
	if err != nil {
		log.Fatal(err)
	}
	defer watcher.Close()
	for {
		notify, err := watcher.Next()
		if err != nil {
			log.Fatal(err)
		}
		if notify.State != nil && *notify.State == ipn.NeedsLogin {
			return
		}
	}
}

// awaitKey asks the operator for another auth key than failed, and ends the program when the mounted file has one: the
// next container starts with it.
func awaitKey(ctx context.Context, failed string) {
	name := strings.TrimPrefix(os.Getenv("TS_STATE"), "kube:")
	client, err := kubeclient.New(fieldManager)
	if err != nil {
		log.Fatal(err)
	}
	told := failed
	if told == "" {
		told = "no-authkey"
	}
	if err := authkey.SetReissueAuthKey(ctx, client, name, told, fieldManager); err != nil {
		log.Fatal(err)
	}
	forget := func(ctx context.Context) error { return authkey.ClearReissueAuthKey(ctx, client, name, fieldManager) }
	if err := authkey.WaitForAuthKeyReissue(ctx, failed, 10*time.Minute, authKey, forget, nil); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// serve takes recordings on port 80 of the device, and with TSRECORDER_UI lists them on port 443.
func serve(server *tsnet.Server, folder string) {
	mux := http.NewServeMux()
	mux.HandleFunc("HEAD /v2/record", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v2/record", func(w http.ResponseWriter, r *http.Request) { recordWithAcks(w, r, folder) })
	mux.HandleFunc("POST /record", func(w http.ResponseWriter, r *http.Request) { storeWhole(w, r, folder, ".cast") })
	mux.HandleFunc("HEAD /v2/event", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v2/event", func(w http.ResponseWriter, r *http.Request) { storeWhole(w, r, folder, ".json") })
	if os.Getenv("TSRECORDER_UI") == "true" {
		listener, err := server.ListenTLS("tcp", ":443")
		if err != nil {
			log.Fatal(err)
		}
		go func() { log.Fatal(http.Serve(listener, http.FileServer(http.Dir(folder)))) }()
	}
	listener, err := server.Listen("tcp", ":80")
	if err != nil {
		log.Fatal(err)
	}
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	log.Fatal((&http.Server{Handler: mux, Protocols: both}).Serve(listener))
}

// recordWithAcks stores a recording, and answers with the number of bytes stored so far, again and again.
func recordWithAcks(w http.ResponseWriter, r *http.Request, folder string) {
	control, answers := http.NewResponseController(w), json.NewEncoder(w)
	w.WriteHeader(http.StatusOK)
	control.Flush()
	acknowledge := func(stored int64) error {
		return errors.Join(answers.Encode(map[string]int64{"ack": stored}), control.Flush())
	}
	if err := write(r, folder, ".cast", acknowledge); err != nil {
		answers.Encode(map[string]string{"error": err.Error()})
	}
}

// storeWhole stores a body and answers once.
func storeWhole(w http.ResponseWriter, r *http.Request, folder, suffix string) {
	if err := write(r, folder, suffix, func(int64) error { return nil }); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// write stores the body of a request in a new file, and tells stored after each piece how many bytes there are.
func write(r *http.Request, folder, suffix string, stored func(int64) error) error {
	file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%d%s", time.Now().UnixNano(), suffix)))
	if err != nil {
		return err
	}
	defer file.Close()
	written, piece := int64(0), make([]byte, 1<<16)
	for {
		n, err := r.Body.Read(piece)
		if _, failure := file.Write(piece[:n]); failure != nil {
			return failure
		}
		written += int64(n)
		if n > 0 {
			if failure := stored(written); failure != nil {
				return failure
			}
		}
		if errors.Is(err, io.EOF) {
			log.Printf("stored %s: %d bytes by %s %s", file.Name(), written, r.Proto, r.URL.Path)
			return nil
		}
		if err != nil {
			return err
		}
	}
}
