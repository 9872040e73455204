package main

import "os"

// reloadSignals has a signal that is never sent: Notify with an empty list would take all of them.
var reloadSignals = []os.Signal{os.Kill}
