package agent

import "example.org/smartdrive/client"

// setClient makes the agent use api for all requests from now on. It must not be called while a
// bundle is being sent. On an error the client before stays in use.
func (a *Agent) setClient(api *client.Client) error {
	up, err := api.Uploader(client.UploadOptions{RetryFor: a.opt.RetryFor})
	if err != nil {
		return err
	}
	a.opt.Client, a.uploader = api, up
	return nil
}

// renew asks Options.Renew for another login if the server refused the current one. It ignores a
// login at another server or with the same token.
func (a *Agent) renew(refused error) {
	if a.opt.Renew == nil || !client.IsCode(refused, client.CodeUnauthenticated) {
		return
	}
	api, err := a.opt.Renew()
	if err != nil || api.BaseURL() != a.opt.Client.BaseURL() || api.Token() == a.opt.Client.Token() {
		return
	}
	if err := a.setClient(api); err != nil {
		a.log.Warn("cannot use the new login; the agent keeps the old one", "error", err)
		return
	}
	a.log.Info("using the new login")
}
