// Control is the tailnet of the end-to-end tests: one HTTP port that is control server, relay and management API, maybe
// the same by HTTPS, a STUN port, and an HTTPS port that lets tailscaled use Pebble.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"

	"tailscale.com/derp/derpserver"
	"tailscale.com/net/stunserver"
	"tailscale.com/tailcfg"
	"tailscale.com/tstest/integration/testcontrol"
	"tailscale.com/types/key"
)

const stunPort = 3478

var (
	listen      = flag.String("listen", "", "address and port of the control server, relay and API")
	secure      = flag.String("secure", "", "address and port of the same by HTTPS; empty for none")
	keeper      = flag.String("keeper", "", "URL of the process that keeps auth keys and devices")
	domain      = flag.String("domain", "", "MagicDNS domain")
	acmeListen  = flag.String("acme-listen", "", "address and port for ACME clients")
	acme        = flag.String("acme", "", "URL of the ACME server")
	certificate = flag.String("certificate", "", "certificate chain that ACME clients and those of -secure see")
	privateKey  = flag.String("key", "", "its key")
)

func main() {
	flag.Parse()
	address, err := netip.ParseAddrPort(*listen)
	if err != nil {
		log.Fatalf("-listen: %v", err)
	}
	server := &testcontrol.Server{
		ExplicitBaseURL: "http://" + *listen,
		DERPMap:         derpMap(address),
		DNSConfig:       &tailcfg.DNSConfig{Proxied: true, Domains: []string{*domain}},
		MagicDNSDomain:  *domain,
		AllOnline:       true,
		PeerRelayGrants: true, // any device may relay for any other
		// The ACME server takes every challenge as met: nobody will look for the record.
		OnSetDNS: func(*tailcfg.SetDNSRequest) error { return nil },
	}
	// The first request makes the server's keys and its mux.
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/key", nil))
	devices := newDevices(server, mustParse(*keeper))

	relay := derpserver.Handler(derpserver.New(key.NewNode(), log.Printf))
	http.Handle("/derp", relay)
	http.HandleFunc("/derp/probe", derpserver.ProbeHandler)
	http.HandleFunc("/derp/latency-check", derpserver.ProbeHandler)
	http.Handle("/api/", devices.api())
	http.HandleFunc("/testbed/nodes", devices.list)
	for _, path := range []string{"approvers", "approve", "user-key", "grants", "https"} {
		http.Handle("/testbed/"+path, devices.api())
	}
	http.Handle("/", server)

	stun := stunserver.New(context.Background())
	stunAddress := netip.AddrPortFrom(address.Addr(), stunPort).String()
	go func() { log.Fatal(stun.ListenAndServe(stunAddress)) }()
	go func() {
		log.Fatal(http.ListenAndServeTLS(*acmeListen, *certificate, *privateKey, acmeFront(mustParse(*acme))))
	}()
	if *secure != "" {
		go func() { log.Fatal(http.ListenAndServeTLS(*secure, *certificate, *privateKey, nil)) }()
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving on %s", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}

// derpMap names this process as the only relay; its clients need TS_DEBUG_USE_DERP_HTTP, as it speaks no TLS.
func derpMap(address netip.AddrPort) *tailcfg.DERPMap {
	host := address.Addr().String()
	node := &tailcfg.DERPNode{
		Name:             "1a",
		RegionID:         1,
		HostName:         host,
		IPv4:             host,
		IPv6:             "none",
		DERPPort:         int(address.Port()),
		STUNPort:         stunPort,
		STUNTestIP:       host,
		InsecureForTests: true,
	}
	region := &tailcfg.DERPRegion{RegionID: 1, RegionCode: "test", Nodes: []*tailcfg.DERPNode{node}}
	return &tailcfg.DERPMap{Regions: map[int]*tailcfg.DERPRegion{1: region}}
}

func mustParse(text string) *url.URL {
	parsed, err := url.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	return parsed
}
