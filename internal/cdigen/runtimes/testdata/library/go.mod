module library

go 1.24
