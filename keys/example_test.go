package keys_test

import (
	"context"
	"fmt"
	"log"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

func Example() {
	ctx := context.Background()
	service, err := keys.NewService(memory.New().Keys(), &keys.Options{Prefix: "acme"})
	if err != nil {
		log.Fatal(err)
	}

	issued, err := service.Create(ctx, keys.Fields{Name: new("My viewer")})
	if err != nil {
		log.Fatal(err)
	}
	key, err := service.Verify(ctx, string(issued.Raw))
	fmt.Println("created:", key.ID, key.Name, err)

	rotated, err := service.Rotate(ctx, key.ID, 0)
	if err != nil {
		log.Fatal(err)
	}
	_, err = service.Verify(ctx, string(issued.Raw))
	fmt.Println("previous raw key:", err)
	_, err = service.Verify(ctx, string(rotated.Raw))
	fmt.Println("current raw key:", err)

	if _, err := service.Update(ctx, key.ID, keys.Fields{Active: new(false)}); err != nil {
		log.Fatal(err)
	}
	_, err = service.Verify(ctx, string(rotated.Raw))
	fmt.Println("revoked:", err)
	// Output:
	// created: 1 My viewer <nil>
	// previous raw key: keys: unknown raw key
	// current raw key: <nil>
	// revoked: keys: key is inactive
}
