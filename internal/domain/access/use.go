package access

// Use is an operation on a node that callers are authorized for.
type Use uint8

// The uses. Every use case authorizes one of them.
const (
	Look        Use = iota // show a node
	List                   // list the children of a folder, its trash and its changes
	Read                   // read content, versions and thumbnails; copy from here; add to a zip
	Upload                 // start an upload of a new file; send parts to it
	MakeFolder             // create a folder
	Replace                // add a version to a file, or trash the node that is replaced
	Edit                   // rename, set the time, restore a version
	Move                   // move a node out of its folder
	Put                    // move or copy a node to here
	Trash                  // put a node into the trash
	Restore                // restore it from the trash
	Delete                 // delete it permanently, empty the trash
	Link                   // create a link for downloads
	CollectLink            // create a link for uploads
	Export                 // create a stored zip of a folder
	SeeAccess              // list who has access
	SetAccess              // give and revoke roles
	numUses
)

// needs maps each use to the weakest role that allows it and the right that is required. Owners and
// managers of a space may do everything.
var needs = [numUses]struct {
	least Role
	right Right
}{
	Look:        {Viewer, See},
	List:        {Viewer, See},
	Read:        {Viewer, See},
	Upload:      {Uploader, Create},
	MakeFolder:  {Uploader, Create},
	Replace:     {Editor, Change},
	Edit:        {Editor, Change},
	Move:        {Editor, Change},
	Put:         {Uploader, Create},
	Trash:       {Editor, Change},
	Restore:     {Editor, Change},
	Delete:      {Manager, Manage},
	Link:        {Editor, Change},
	CollectLink: {Editor, Change},
	Export:      {Viewer, See},
	SeeAccess:   {Viewer, See},
	SetAccess:   {Manager, Manage},
}

// Uses returns all uses.
func Uses() []Use {
	all := make([]Use, numUses)
	for i := range all {
		all[i] = Use(i)
	}
	return all
}

// MinRole returns the weakest role that suffices.
func (u Use) MinRole() Role { return needs[u].least }

// Needs returns the required right.
func (u Use) Needs() Right { return needs[u].right }
