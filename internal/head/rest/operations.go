package rest

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/files"
)

const operationsPath = "/operations"

func (n nodes) operationRoutes() []route {
	return []route{{
		method: "GET", path: operationsPath + "/{id}", need: read, act: plain(n.operation),
		does: "Show how far an operation is; for 7 days after its end.",
		out:  []outcome{gives[files.Operation](200, "the operation")}, fails: []drive.Kind{drive.NotFound},
	}}
}

func (n nodes) operation(ctx context.Context, c *call) (reply, error) {
	id, err := drive.ParseID[drive.OperationID](c.r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	return answer(n.files.Operation(ctx, c.who, id))
}
