package main

import "os"

// reloadSignals holds a signal that is never delivered, because Notify with an empty list would
// subscribe to all signals.
var reloadSignals = []os.Signal{os.Kill}
