package agent

import "smartdrive/client"

// use makes the agent act by a client.
func (a *Agent) use(api *client.Client) error {
	up, err := api.Uploader(client.UploadOptions{GiveUp: a.opt.GiveUp})
	if err != nil {
		return err
	}
	a.opt.Client, a.up = api, up
	return nil
}

// renew looks for another login after the server has refused the one that there is: somebody may
// have logged in meanwhile. One at another server is not for this agent.
func (a *Agent) renew(refused error) {
	if a.opt.Renew == nil || !client.IsCode(refused, client.CodeUnauthenticated) {
		return
	}
	api, err := a.opt.Renew()
	if err != nil || api.BaseURL() != a.opt.Client.BaseURL() || api.Token() == a.opt.Client.Token() {
		return
	}
	if err := a.use(api); err != nil {
		a.log.Warn("cannot go on with the new login", "error", err)
		return
	}
	a.log.Info("going on with the new login")
}
