import Foundation
import StorePlatform

extension Actor {
    /// The process itself: `become USER`, `die-at POINT [PASSES]`, `leak-work ...`.
    static let processCommands: [String: Command] = [
        "become": { _, words in
            try become(UInt32(words[0]))
            return ""
        },
        "die-at": { _, words in
            #if DEBUG
                guard let point = CrashPoint(rawValue: words[0]) else { throw ActorError.badArguments(words) }
                CrashPoint.choose(point, passing: words.count > 1 ? Int(words[1]) ?? 0 : 0)
            #endif
            return ""
        },
        "leak-work": { _, words in
            try LeakWork(words).run()
            return ""
        },
    ]

    /// Becomes another user for good, with the group of the same number and no others.
    private static func become(_ user: UInt32?) throws {
        guard let user, setgroups(0, nil) == 0, setgid(user) == 0, setuid(user) == 0 else {
            throw CocoaError(.featureUnsupported)
        }
    }
}
