package timertest

// contract lists the traces for every queue.
var contract = []trace{
	{"a timer is due idle after it was armed, and not before (T1)", `
		arm a gen=1 idle=30s
		lease park = none
		wait 30s
		+29.999s
		lease park = none
		wait 1ms
		+1ms
		lease park = a
		done a
		lease park = none
		wait never`},
	{"a touch pushes a timer back by idle from the touch", `
		arm a gen=1 idle=30s
		+20s
		touch a
		+10s
		lease park = none
		wait 20s
		+20s
		lease park = a`},
	{"touches cannot push a timer beyond first + max", `
		arm a gen=1 idle=30s max=1m
		+25s
		touch a
		+25s
		touch a
		lease park = none
		wait 10s
		+10s
		lease park = a`},
	{"a touch without a timer is ignored", `
		touch a
		lease park = none
		wait never`},
	{"a touch of one kind does not touch another kind of the same id", `
		arm a gen=1 idle=30s
		arm abandon:a gen=1 idle=30s
		+20s
		touch abandon:a
		+10s
		lease abandon = none
		lease park = a
		+20s
		lease abandon = abandon:a`},
	{"a timer armed from the truth counts from the last activity that it names", `
		arm a gen=1 idle=30s last=-20s
		lease park = none
		wait 10s
		arm b gen=1 idle=30s last=-20s max=1m first=-55s
		lease park = none
		wait 5s
		+10s
		lease park = a b`},
	{"an age that lies in the future counts as now", `
		arm a gen=1 idle=30s last=1h
		lease park = none
		wait 30s`},
	{"idle 0 is due at once", `
		arm a gen=1 idle=0s
		lease park = a
		done a`},
	{"a timer that was due long ago, in an outage, is delivered", `
		arm a gen=1 idle=30s
		arm b gen=1 idle=48h
		+200h
		lease park = a b`},
	{"arming a smaller gen changes nothing", `
		arm a gen=2 idle=30s
		arm a gen=1 idle=1s
		+1s
		lease park = none
		wait 29s`},
	{"arming a greater gen replaces, also by a later due time", `
		arm a gen=1 idle=1s
		arm a gen=2 idle=30s
		+1s
		lease park = none
		wait 29s
		+29s
		lease park = a`},
	{"arming the same gen again does not move activity back", `
		arm a gen=1 idle=30s
		+10s
		touch a
		arm a gen=1 idle=30s last=-10s
		+20s
		lease park = none
		wait 10s`},
	{"arming the same gen does not restart the cap", `
		arm a gen=1 idle=30s max=40s
		+20s
		arm a gen=1 idle=30s max=40s
		+20s
		lease park = a`},
	{"an arm that is due earlier than its index entry moves the entry", `
		arm a gen=1 idle=1h
		lease park = none
		arm a gen=1 idle=5s
		lease park = none
		wait 5s
		+5s
		lease park = a`},
	{"a cancelled timer does not fire", `
		arm a gen=1 idle=1s
		cancel a gen=1
		+1s
		lease park = none
		wait never`},
	{"a cancel of a smaller gen leaves the timer", `
		arm a gen=2 idle=1s
		cancel a gen=1
		+1s
		lease park = a`},
	{"a cancel of a timer that is not there is no error", `
		cancel a gen=1`},
	{"a leased timer is not delivered again while the lease holds", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		+59s
		lease park = none
		wait 1s`},
	{"a lease that ran out is delivered again unchanged (T3)", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		+1m
		lease park = a
		+1m
		lease park = a
		done a
		+1m
		lease park = none
		wait never`},
	{"the first of two deliveries that is done settles both (T3)", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		+1m
		lease park = a
		done a token=1
		+1m
		lease park = none
		done a
		wait never`},
	{"a token that is settled means nothing afterwards", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		done a
		arm a gen=2 idle=1s
		+1s
		lease park = a
		done a token=1
		retry a token=1 in=1h
		+1m
		lease park = a`},
	{"a greater gen that is armed while the old one is leased stays, whatever becomes of the lease", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		arm a gen=2 idle=1s
		done a
		+1s
		lease park = a
		done a token=1
		snooze a token=1 in=1h
		+1m
		lease park = a`},
	{"the same gen that is armed while it is leased stays", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		arm a gen=1 idle=5s
		done a
		+5s
		lease park = a`},
	{"a smaller gen that is armed during a lease changes nothing", `
		arm a gen=2 idle=1s
		+1s
		lease park = a
		arm a gen=1 idle=5s
		done a
		+5s
		lease park = none
		wait never`},
	{"a cancel during a lease voids it", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		cancel a gen=1
		retry a in=1s
		+2m
		lease park = none
		wait never`},
	{"a touch during a lease is not lost: after done the timer is pending again", `
		arm a gen=1 idle=30s
		+30s
		lease park = a
		+10s
		touch a
		done a
		lease park = none
		wait 30s
		+30s
		lease park = a
		done a
		lease park = none
		wait never`},
	{"a touch in the very moment of the lease is not lost", `
		arm a gen=1 idle=30s max=30s
		+30s
		touch a
		lease park = a
		touch a
		done a
		lease park = none
		wait 30s`},
	{"a touch during a lease begins a new period for the cap", `
		arm a gen=1 idle=30s max=40s
		+30s
		lease park = a
		+15s
		touch a
		done a
		lease park = none
		wait 30s`},
	{"a retry comes after its pause, as it was, with its attempt", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		retry a in=5s attempt=1
		lease park = none
		wait 5s
		+5s
		lease park = a
		retry a in=10m attempt=2
		+9m
		lease park = none
		+1m
		lease park = a`},
	{"a touch before a retry is kept for after", `
		arm a gen=1 idle=30s
		+30s
		lease park = a
		retry a in=5s attempt=1
		touch a
		+5s
		lease park = a
		done a
		lease park = none
		wait 25s`},
	{"a snoozed timer comes up when it was told to", `
		arm a gen=1 idle=30s
		+30s
		lease park = a
		snooze a in=10s
		lease park = none
		wait 10s
		+10s
		lease park = a`},
	{"a touch pushes a snoozed timer back", `
		arm a gen=1 idle=30s
		+30s
		lease park = a
		snooze a in=10s
		+5s
		touch a
		+5s
		lease park = none
		wait 25s`},
	{"a touch while the handler looked counts after a snooze", `
		arm a gen=1 idle=30s
		+30s
		lease park = a
		touch a
		snooze a in=1s
		+1s
		lease park = none
		wait 29s`},
	{"kinds are leased apart", `
		arm a gen=1 idle=1s
		arm abandon:a gen=1 idle=1s
		arm abandon:b gen=1 idle=1h
		+1s
		lease park = a
		done a
		lease park = none
		wait never
		lease abandon = abandon:a
		lease abandon = none`},
	{"a clock that is set back fires nothing early and loses nothing (T1)", `
		arm a gen=1 idle=30s
		+20s
		touch a
		-1h
		lease park = none
		touch a
		+1h
		+10s
		lease park = none
		wait 20s
		+20s
		lease park = a`},
}

// loss lists the further traces for a queue that implements Forgetter.
var loss = []trace{
	{"a queue that lost its content says so by a new epoch, and takes timers again", `
		arm a gen=3 idle=30s
		lease park = none
		forget
		wait never
		touch a
		arm a gen=1 idle=1s
		lease park = none
		wait 1s
		+1s
		lease park = a`},
	{"a lease from before a loss is void", `
		arm a gen=1 idle=1s
		+1s
		lease park = a
		forget
		arm a gen=1 idle=1s
		done a
		+1s
		lease park = a`},
}
