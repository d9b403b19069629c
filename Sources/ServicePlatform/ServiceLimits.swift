/// The bounds of this layer.
package enum ServiceLimits {
    /// The most bytes that are kept of what a program writes to one of its two outputs. It is killed when it writes more.
    package static let outputBytes = 16 * 1024 * 1024
    /// The time in which a program must end after SIGTERM, before SIGKILL. A rotation undoes its work in 15 seconds.
    package static let endingGrace = Duration.seconds(20)
    /// The time after SIGKILL in which the system must end a program. A call to a network filesystem may never end.
    package static let killGrace = Duration.seconds(5)
    /// The longest delay until the end of a program, or a cancellation, is noticed.
    static let pollMilliseconds: Int32 = 50

    /// The longest head of a request: its first line and its fields.
    package static let requestBytes = 8 * 1024
    /// The longest target of a request.
    package static let targetBytes = 1024
    /// The time in which the head of a request must have arrived as a whole.
    package static let requestWait = Duration.seconds(5)
    /// The time in which a client must have read the whole answer.
    package static let answerWait = Duration.seconds(10)
    /// The time in which a client must close the connection after the answer.
    package static let closeWait = Duration.seconds(1)
    /// The most connections. One more ends the one that has been waiting longest for its request.
    package static let connections = 64
    /// The most connections that the system keeps until they are accepted.
    static let backlog: Int32 = 64

    /// The longest message to the journal; the system limits a datagram to about 200 KiB.
    package static let journalBytes = 32 * 1024
}
