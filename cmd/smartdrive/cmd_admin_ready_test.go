package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/config"
)

func TestReadyAddress(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]config.Config{
		"http://127.0.0.1:8320/readyz": {Listen: "127.0.0.1:8320"},
		"http://127.0.0.1:80/readyz":   {Listen: "0.0.0.0:80"},
		"http://127.0.0.1:81/readyz":   {Listen: ":81"},
		"http://[::1]:8320/readyz":     {Listen: "[::]:8320"},
		"http://10.0.0.7:8320/readyz":  {Listen: "10.0.0.7:8320"},
		"https://127.0.0.1:443/readyz": {Listen: "0.0.0.0:443", TLSCert: "cert.pem"},
	} {
		if got := readyAddress(cfg); got != want {
			t.Errorf("listening on %s: %s, want %s", cfg.Listen, got, want)
		}
	}
}

func TestCheckReady(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"checks":{"database":"failing"}}`)
		}
	}))
	defer s.Close()
	if err := checkReady(t.Context(), s.URL+"/readyz"); err != nil {
		t.Error(err)
	}
	if err := checkReady(t.Context(), s.URL+"/other"); err == nil || !strings.Contains(err.Error(), `"database":"failing"`) {
		t.Errorf("a server that is not ready: %v", err)
	}
	s.Close()
	if err := checkReady(t.Context(), s.URL+"/readyz"); err == nil {
		t.Error("a server that has stopped is ready")
	}
}
