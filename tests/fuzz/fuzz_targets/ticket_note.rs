#![no_main]
repo_fuzz::target!(TicketNote);
