// The other side in interop tests: RocketMQ's Go client, which sends, consumes and leaves.
//
// Arguments: name server, topic, group, how many messages, how many attempts of m1 fail. It sends half of them alone and
// half as one batch, and another with a delay level; consumes them in a group; and prints one line of JSON a message that
// its listener was given.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type seen struct {
	Body       string `json:"body"`
	Tags       string `json:"tags"`
	Keys       string `json:"keys"`
	Queue      int    `json:"queue"`
	Offset     int64  `json:"offset"`
	Reconsumed int32  `json:"reconsumed"`
}

func main() {
	names, topic, group := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	failures, err := strconv.Atoi(os.Args[5])
	check(err)
	rlog.SetLogLevel("error")

	send(names, topic, count)

	var lock sync.Mutex
	given := make(chan struct{}, 1000)
	member, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{names}),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithInstance("go-member"),
	)
	check(err)
	check(member.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "go"},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			result := consumer.ConsumeSuccess
			for _, message := range messages {
				body := string(message.Body)
				line, err := json.Marshal(seen{body, message.GetTags(), message.GetKeys(), message.Queue.QueueId,
					message.QueueOffset, message.ReconsumeTimes})
				check(err)
				lock.Lock()
				fmt.Println(string(line))
				lock.Unlock()
				if body == "m1" && int(message.ReconsumeTimes) < failures {
					result = consumer.ConsumeRetryLater
				}
				given <- struct{}{}
			}
			return result, nil
		}))
	check(member.Start())
	// All of them, the delayed one, and what came again.
	deadline := time.After(60 * time.Second)
	for i := 0; i < count+1+failures; i++ {
		select {
		case <-given:
		case <-deadline:
			fmt.Fprintln(os.Stderr, "not all messages came within a minute")
			os.Exit(1)
		}
	}
	check(member.Shutdown())
}

func send(names string, topic string, count int) {
	maker, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{names}), producer.WithRetry(2), producer.WithGroupName("go-producer"),
	)
	check(err)
	check(maker.Start())
	var batch []*primitive.Message
	for i := 0; i < count; i++ {
		message := primitive.NewMessage(topic, []byte("m"+strconv.Itoa(i)))
		message.WithTag("go").WithKeys([]string{"k" + strconv.Itoa(i)})
		if i < count/2 {
			_, err = maker.SendSync(context.Background(), message)
			check(err)
		} else {
			batch = append(batch, message)
		}
	}
	_, err = maker.SendSync(context.Background(), batch...)
	check(err)
	other := primitive.NewMessage(topic, []byte("of another tag")).WithTag("else")
	check(maker.SendOneWay(context.Background(), other))
	late := primitive.NewMessage(topic, []byte("late")).WithTag("go").WithDelayTimeLevel(1)
	_, err = maker.SendSync(context.Background(), late)
	check(err)
	check(maker.Shutdown())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
