// Recorder is a stand-in for Tailscale's tsrecorder, which isn't open source: it takes the same environment and the
// same requests, and writes what it gets into files. It has no S3 client, and a list of files in place of the UI. Tests
// can tell it to fail, and read the files.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
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
	log.Fatal((&http.Server{Handler: newRecorder(folder).handler(), Protocols: both}).Serve(listener))
}
