import CipherStore
import Foundation
import StorePlatform
import TestKit

extension Actor {
    /// The process itself: `become USER [GROUP]`, `leak-work ...`; and what it does when it comes to a named place: `die-at POINT
    /// [PASSES]`, `stand-at POINT FILE` (`StandingPlace`), `mark-at POINT COUNT` commits that many rows.
    static let processCommands: [String: Command] = [
        "become": { _, words in
            try become(UInt32(words[0]), group: words.count > 1 ? UInt32(words[1]) : nil)
            return ""
        },
        "die-at": { _, words in
            #if DEBUG
                CrashPoint.choose(try place(words), passing: words.count > 1 ? Int(words[1]) ?? 0 : 0)
            #endif
            return ""
        },
        "stand-at": { _, words in
            #if DEBUG
                CrashPoint.choose(try place(words)) { StandingPlace(words[1]).stand() }
            #endif
            return ""
        },
        "mark-at": { actor, words in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            #if DEBUG
                CrashPoint.choose(try place(words)) {
                    for _ in 0..<(Int(words[1]) ?? 0) {
                        try? store.write { db in
                            try db.execute(
                                sql: "INSERT INTO mark (process, text) VALUES (?, 'between')", arguments: [getpid()])
                        }
                    }
                }
            #endif
            return ""
        },
        "leak-work": { _, words in
            try LeakWork(words).run()
            return ""
        },
    ]

    private static func place(_ words: [String]) throws -> CrashPoint {
        guard let point = words.first.flatMap(CrashPoint.init(rawValue:)) else { throw ActorError.badArguments(words) }
        return point
    }

    /// Becomes another user for good, with one group, which has the same number unless another is given.
    private static func become(_ user: UInt32?, group: UInt32?) throws {
        guard let user, setgroups(0, nil) == 0, setgid(group ?? user) == 0, setuid(user) == 0 else {
            throw CocoaError(.featureUnsupported)
        }
    }
}
