// Package fetch gets documents from elsewhere over HTTP, for users who say where from.
//
// A user who names an address makes this server go there, so it goes only where its administrator
// allows:
//
//	host      on the list, by name and port; without a list nothing is fetched
//	redirect  at most five, each to a host of the list
//	address   that a name leads to: none of this network's own, checked when the connection is made, so that a name which says one
//	          thing now and another then gains nothing
//	proxy     none: what HTTP_PROXY says is for people's programs
//	size      refused by the declared length before a byte is read, and by count
//	time      for the whole document, and between two reads
//
// Each failure has a class, which says what helps: the same again, another machine, or nothing.
package fetch
