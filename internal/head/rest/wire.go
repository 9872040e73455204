package rest

import (
	"fmt"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/files"
)

// showTime returns the wire form of a time.
func showTime(t drive.Time) api.Time { return api.Time{Time: t.Std()} }

// timeOrNil returns the wire form of a time; nil for zero.
func timeOrNil(t drive.Time) *api.Time {
	if t == 0 {
		return nil
	}
	at := showTime(t)
	return &at
}

// textOrNil returns the text of an optional value, such as an id; nil for nil.
func textOrNil[T fmt.Stringer](v *T) *string {
	if v == nil {
		return nil
	}
	text := (*v).String()
	return &text
}

// showPage returns a function that replies 200 with the wire form of a page of a use case, with
// each item converted by show.
func showPage[V, W any](show func(V) W) func(files.Page[V], error) (reply, error) {
	return func(page files.Page[V], err error) (reply, error) {
		if err != nil {
			return reply{}, err
		}
		return ok(api.Page[W]{Items: convert(page.Items, show), NextCursor: page.NextCursor})
	}
}

// convert returns the items converted by show; empty, not nil, for none.
func convert[V, W any](items []V, show func(V) W) []W {
	shown := make([]W, len(items))
	for i, v := range items {
		shown[i] = show(v)
	}
	return shown
}

// showNode returns the wire form of a node.
func showNode(v files.NodeView) api.Node {
	n := api.Node{
		ID: v.ID.String(), ParentID: textOrNil(v.ParentID), Name: v.Name, Path: v.Path, Type: api.NodeType(v.Type), Size: v.Size, MIME: v.Mime,
		Mtime: showTime(v.MTime), CreatedAt: showTime(v.CreatedAt), UpdatedAt: showTime(v.UpdatedAt), Rev: v.Rev, Seq: v.Seq, Digests: v.Digests,
		Role: string(v.Role),
	}
	if v.TrashedAt != nil {
		at := showTime(*v.TrashedAt)
		n.TrashedAt = &at
	}
	return n
}

// nodeOrNil returns the wire form of a node; nil for nil.
func nodeOrNil(v *files.NodeView) *api.Node {
	if v == nil {
		return nil
	}
	n := showNode(*v)
	return &n
}

// nodeReply replies 200 with a node.
func nodeReply(v files.NodeView, err error) (reply, error) { return answer(showNode(v), err) }

// linkTarget returns the wire form of the node that a link or role refers to.
func linkTarget(id drive.NodeID, n tree.Node) api.LinkTarget {
	return api.LinkTarget{ID: id.String(), Name: string(n.Name), Type: api.NodeType(n.Type), Size: int64(n.Size)}
}

// showOperation returns the wire form of work on a subtree.
func showOperation(o files.Operation) api.SubtreeOperation {
	return api.SubtreeOperation{ID: o.ID.String(), State: string(o.State), Done: o.Done, Total: o.Total, Error: api.Code(o.Error)}
}
