module ropeway/web/site

go 1.26.0

require (
	github.com/yuin/goldmark v1.8.7
	ropeway v0.0.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace ropeway => ../..
