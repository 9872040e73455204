// Package plans asks the engines how they would do every statement that the program executes. It
// has tests only.
//
// The tests of the packages write down what they made the program ask for (sqldbtest.Statement).
// Here the engine explains each of it, and what would read a whole table fails, unless sqlite.txt
// or mariadb.txt has it with a reason that holds at a million rows. What neither engine can say
// without rows is measured on a database with a million of them.
package plans
