package access

// Use is what somebody wants to do at a node.
type Use uint8

// The uses. All heads go through use cases, and these ask for one of them.
const (
	Look        Use = iota // show a node
	List                   // list what is in a folder, and its trash and changes
	Read                   // read a content, a version, a thumbnail; copy from here; put it into a zip
	Upload                 // begin an upload that makes a file; add a part to it
	MakeFolder             // make a folder
	Replace                // add a version to a file, or move what is in the way to the trash
	Edit                   // rename, touch, restore a version
	Move                   // take a node away from where it is
	Put                    // move or copy a node to here
	Trash                  // put a node into the trash
	Restore                // bring it back
	Delete                 // delete it for good, empty the trash
	Link                   // give out a link by which others read
	CollectLink            // give out a link by which others send
	Export                 // make a zip of a folder for later
	SeeAccess              // see who has access
	SetAccess              // give and take roles
	numUses
)

// needs is the table of uses: the least role, and the right of it that decides. Its owner and the
// managers of a space may do all of it.
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

// Uses lists the uses.
func Uses() []Use {
	all := make([]Use, numUses)
	for i := range all {
		all[i] = Use(i)
	}
	return all
}

// Least is the weakest role that suffices.
func (u Use) Least() Role { return needs[u].least }

// Needs is the right that decides.
func (u Use) Needs() Right { return needs[u].right }
