import CipherStore
import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform
import TestKit

extension Actor {
    /// What a rotation writes down, without the rotation: sidecars alone, with the raw keys of ``LedgerCase``.
    ///
    /// - `ledger-make PATH CASE`: the sidecar of a store that is ready.
    /// - `ledger PATH CASE begin|switch|complete|abandon`: the next entry of a rotation.
    static let ledgerCommands: [String: Command] = [
        "ledger-make": { _, words in
            guard words.count == 2, let kind = LedgerCase(rawValue: words[1]) else {
                throw ActorError.badArguments(words)
            }
            try kind.make(words[0])
            return ""
        },
        "ledger": { _, words in
            guard words.count == 3, let kind = LedgerCase(rawValue: words[1]) else {
                throw ActorError.badArguments(words)
            }
            let file = try LockFile(path: words[0] + "-lock", likeFile: nil)
            let locks = try [LockByte.opening, .admin].map {
                try file.lock($0, .exclusive, deadline: .now + .seconds(5))
            }
            defer { for lock in locks { lock.release() } }
            let ledger = try LedgerCase.ledger(words[0], key: 0)
            switch words[2] {
            case "begin": try ledger.begin(kind.aim())
            case "switch": try ledger.announceSwitch(pages: 9)
            case "complete": try ledger.complete()
            case "abandon": try ledger.abandon()
            default: throw ActorError.badArguments(words)
            }
            return ""
        },
    ]
}
