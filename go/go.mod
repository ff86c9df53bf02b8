// The module's name is Mooncake's, so that programs that were written for its package compile:
// replace github.com/kvcache-ai/Mooncake/mooncake-store/go => THE FOLDER OF THIS FILE
module github.com/kvcache-ai/Mooncake/mooncake-store/go

go 1.19
