import KeyCustody
import RecoveryShares
import StorePlatform

/// Prompts for shares of a recovery key, line by line without echo, until they give the key.
///
/// Each line is verified when it is entered. The text before a prompt says what came of the line before it, because a
/// prompt is on the terminal wherever standard error goes.
enum RecoverySharePrompt {
    static let source = KeySource.customRawKey(RecoveryShareSet.sourceName) { try key() }

    private static func key() throws -> RawKey {
        var set = RecoveryShareSet()
        var remark = ""
        while true {
            let share = try share(of: set, after: remark)
            try set.add(share)
            guard set.missing == 0 else {
                remark = "Share \(share.header.number) of \(share.header.count) is entered: \(needed(set))\n"
                continue
            }
            do {
                let combination = try set.combine()
                if !combination.misfits.isEmpty || combination.areUnclear {
                    Console.warn(misfits(combination.misfits))
                }
                return combination.key
            } catch let refusal as RecoveryShareSet.Refusal {
                remark = "\("\(refusal)".capitalizedFirst).\nEnter another share of the set, or end with Ctrl-D.\n"
            }
        }
    }

    /// A share that belongs to those that were entered.
    private static func share(of set: RecoveryShareSet, after remark: String) throws -> RecoveryShare {
        var entry = RecoveryShareEntry()
        var remark = remark
        while true {
            let line = try typed(remark + prompt(entry))
            remark = ""
            do throws(RecoveryShare.ReadingError) {
                try line.withBytes { typed throws(RecoveryShare.ReadingError) in try entry.enter(typed) }
            } catch {
                remark = "Not accepted: \(error).\n"
                continue
            }
            do throws(RecoveryShareSet.Refusal) {
                if let header = entry.header { try set.require(header) }
            } catch {
                remark = "\("\(error)".capitalizedFirst): enter another one.\n"
                entry = RecoveryShareEntry()
            }
            if let share = entry.share { return share }
        }
    }

    private static func prompt(_ entry: RecoveryShareEntry) -> String {
        guard let header = entry.header else { return "Recovery share, line 1 of \(RecoveryShare.lineCount): " }
        return "Share \(header.number), line \(entry.nextLine) of \(RecoveryShare.lineCount): "
    }

    private static func needed(_ set: RecoveryShareSet) -> String {
        "\(RecoveryShareSet.Refusal.missing(set.missing))."
    }

    private static func typed(_ prompt: String) throws -> WipedBuffer {
        do throws(Terminal.Failure) {
            return try Terminal.readWithoutEcho(prompt: prompt)
        } catch {
            throw StoreError(
                .keyMissing, what: "The recovery shares give no key.", why: error.description,
                remedy: "Run the command again, or give the shares as files.")
        }
    }

    /// A warning about shares that the others contradict.
    ///
    /// - Parameter numbers: Empty if it is not clear which.
    static func misfits(_ numbers: [Int]) -> String {
        if numbers.isEmpty {
            return "some of the shares are wrong, and nothing shows which: compare all with the printed ones"
        }
        let list = numbers.map(String.init).joined(separator: ", ")
        return numbers.count == 1
            ? "share \(list) is wrong: the other shares give the key without it"
            : "the shares \(list) are wrong: the other shares give the key without them"
    }
}
