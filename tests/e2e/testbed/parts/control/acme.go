package main

import (
	"crypto/tls"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// acmeFront passes requests on to Pebble, and adds to its answer to a finalize request the Location of the order:
// tailscaled polls it, and Pebble doesn't send it.
func acmeFront(pebble *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		// Pebble is on loopback, with whatever certificate.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(pebble)
			request.Out.Host = request.In.Host // Pebble makes the URLs in its answers from it
		},
		ModifyResponse: func(response *http.Response) error {
			if order, ok := strings.CutPrefix(response.Request.URL.Path, "/finalize-order/"); ok {
				response.Header.Set("Location", "https://"+response.Request.Host+"/my-order/"+order)
			}
			return nil
		},
	}
}
