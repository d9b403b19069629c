#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// When a waiter sleeps, what wakes it, and when it looks after the one who has the turn.
///
/// Normally it is woken. It looks by itself for what nobody tells: that the one who had the turn was killed, also between
/// freeing the turn and waking the next; that the one to whom it was offered does not move. The first in line looks
/// often, those behind it seldom, so that a thousand of them cost nothing.
struct TurnWait {
    private var nextLook: UInt64
    private var quietUntil: UInt64 = 0
    /// The offer that was found at the last look.
    private var unanswered: TurnWord?

    init(now: UInt64) { nextLook = now + Limits.turnLookNanoseconds }

    /// The word on which to sleep.
    func word(at now: UInt64) -> UInt32 { now < quietUntil ? WakeWord.quiet : WakeWord.armed }

    /// Until when to sleep if nobody wakes it.
    var wakeTime: UInt64 { quietUntil != 0 ? min(quietUntil, nextLook) : nextLook }

    /// Told when the turn was gone when the waiter came to take it: for a moment nobody needs to wake it again.
    mutating func cameTooLate(at now: UInt64) { quietUntil = now + Limits.turnQuietNanoseconds }

    mutating func isTimeToLook(at now: UInt64) -> Bool {
        if now >= quietUntil { quietUntil = 0 }
        return now >= nextLook
    }

    /// Takes in what was found.
    ///
    /// - Parameter position: How many wait that came earlier.
    /// - Returns: The offer that is to be taken away: it was there at the last look already.
    mutating func look(at owner: TurnWord, now: UInt64, position: Int) -> TurnWord? {
        nextLook = now + min(Limits.turnLookNanoseconds * UInt64(position + 1), Limits.seldomTurnLookNanoseconds)
        defer { unanswered = owner.isOffer ? owner : nil }
        return owner.isOffer && owner == unanswered ? owner : nil
    }
}

/// The number of the failure of a call that the system does not have.
enum ENOSYSNumber {
    static let value = ENOSYS
}
