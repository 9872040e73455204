package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/base/config"
)

// readyTimeout bounds the request of `admin ready`; the server answers within 2 s.
const readyTimeout = 5 * time.Second

// readyCommand returns the command `admin ready`: fail unless the server on this machine is ready.
func (a *adminCLI) readyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Fail unless the server on this machine is ready",
		Long: `Ask the server on this machine for /readyz, and fail unless it is ready. It finds the address as the server does: give it the
same configuration. Containers and supervisors call it as their health check.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if err := checkReady(cmd.Context(), readyAddress(cfg)); err != nil {
				return withCode(exitFailed, err)
			}
			return a.printDone(map[string]bool{"ready": true}, "ready")
		},
	}
	for _, name := range []string{"listen", "tls-cert", "tls-key"} {
		cmd.Flags().AddFlag(a.cfg.Lookup(name))
	}
	return cmd
}

// readyAddress returns the address of /readyz at the server with this configuration. A server that
// listens on all addresses is reached at the loopback address.
func readyAddress(cfg config.Config) string {
	scheme := "http"
	if cfg.TLSCert != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(cfg.Listen) // checked with the configuration
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/readyz"
}

// checkReady requests an address of /readyz and fails unless the reply is 200. It does not check
// the certificate, which is for the name of the server and not for the loopback address.
func checkReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	own := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // see above
	resp, err := own.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return errors.Join(fmt.Errorf("not ready: %s %s", resp.Status, strings.TrimSpace(string(text))), err)
}
