package rest

import (
	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/files"
)

const operationsPath = "/operations"

func (a *API) operationRoutes() []route {
	return []route{{
		method: "GET", path: operationsPath + "/{id}", need: read, act: plain((*call).getOperation),
		does: "Show how far an operation is; for 7 days after its end.",
		out:  []outcome{gives[files.Operation](200, "the operation")}, fails: []drive.Kind{drive.NotFound},
	}}
}

func (c *call) getOperation() (reply, error) {
	id, err := drive.ParseID[drive.OperationID](c.r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	return answer(c.Files.Operation(c.ctx(), c.who, id))
}
