import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Recovery keys")
struct RecoveryKeyTests {
    private func key(_ text: String) throws -> String {
        let recovery = try RecoveryKey(reading: text)
        return recovery.key.bytes.hex()
    }

    private func error(_ text: String) -> RecoveryKey.ReadingError? {
        do {
            _ = try key(text)
            return nil
        } catch {
            return error as? RecoveryKey.ReadingError
        }
    }

    private func lines(_ text: String) -> [String] { text.split(separator: "\n").map(String.init) }

    @Test("a key is printed and read as the document says", arguments: SlotVectors.load().recovery)
    func vectors(vector: SlotVectors.Recovery) throws {
        let recovery = RecoveryKey(try RawKey(bytes: vector.key.hexBytes))
        let printed = recovery.text()
        #expect(printed.withBytes { Array($0).text } == vector.text)
        #expect(try key(vector.text) == vector.key)
    }

    @Test("random keys differ, and describe themselves without their bytes")
    func random() throws {
        let first = try RecoveryKey.random()
        let second = try RecoveryKey.random()
        let isSame = first.key.bytes.isEqual(to: second.key.bytes)
        #expect(!isSame)
        #expect(first.description == "RecoveryKey(256 bits)")
    }

    @Test("small letters, blanks, hyphens, line ends and letters that look like digits are forgiven")
    func forgiving() throws {
        let vector = try #require(SlotVectors.load().recovery.first { $0.text.contains("1") && $0.text.contains("0") })
        let sloppy = vector.text.lowercased().replacingOccurrences(of: "1", with: "l")
            .replacingOccurrences(of: "0", with: "O")
        #expect(try key(sloppy) == vector.key)
        #expect(try key(sloppy.replacingOccurrences(of: "l", with: "I")) == vector.key)
        #expect(try key(vector.text.replacingOccurrences(of: "-", with: " \t")) == vector.key)
        #expect(try key("\n  " + vector.text.replacingOccurrences(of: "\n", with: "\r\n\r\n")) == vector.key)
        #expect(try key(vector.text.replacingOccurrences(of: "\n", with: "")) == vector.key)
    }

    @Test("every single wrong character is found, and its line named")
    func typos() throws {
        let vector = try #require(SlotVectors.load().recovery.last)
        let right = lines(vector.text)
        for line in right.indices {
            for (position, character) in right[line].enumerated() where character != "-" {
                for wrong in RecoveryKey.alphabet where UInt8(ascii: character.unicodeScalars.first ?? "-") != wrong {
                    var changed = right.map { Array($0.utf8) }
                    changed[line][position] = wrong
                    let text = changed.map { $0.text }.joined(separator: "\n")
                    #expect(error(text) == .check(line: line + 1), "line \(line + 1), character \(position + 1)")
                }
            }
        }
    }

    @Test("neighbours in the wrong order and lines in the wrong place are found")
    func order() throws {
        let vector = try #require(SlotVectors.load().recovery.last)
        let right = lines(vector.text)
        for line in right.indices {
            let symbols = Array(right[line].replacingOccurrences(of: "-", with: "").utf8)
            for position in symbols.indices.dropLast() where symbols[position] != symbols[position + 1] {
                var changed = right
                var swapped = symbols
                swapped.swapAt(position, position + 1)
                changed[line] = swapped.text
                #expect(error(changed.joined(separator: "\n")) == .check(line: line + 1))
            }
        }
        for first in 0..<4 {
            for second in (first + 1)..<4 {
                var changed = right
                changed.swapAt(first, second)
                #expect(error(changed.joined(separator: "\n")) == .check(line: first + 1))
            }
        }
    }

    @Test("what is too short, too long or of other characters is told by its line")
    func shapes() throws {
        let right = lines(try #require(SlotVectors.load().recovery.last).text)
        func text(_ line: Int, _ change: (String) -> String) -> String {
            var changed = right
            changed[line] = change(changed[line])
            return changed.joined(separator: "\n")
        }
        #expect(error(text(1) { String($0.dropLast()) }) == .lineLength(line: 2, found: 15))
        #expect(error(text(3) { $0 + "7" }) == .lineLength(line: 4, found: 17))
        #expect(error(text(2) { "U" + $0.dropFirst() }) == .character(line: 3))
        #expect(error(text(2) { "é" + $0.dropFirst() }) == .character(line: 3))
        #expect(error(right.joined().replacingOccurrences(of: right[1].prefix(1), with: "*")) != nil)
        let shown = error(text(2) { "U" + $0.dropFirst() })?.description
        #expect(shown?.contains("line 3") == true && shown?.contains(right[2].prefix(4)) == false)
    }

    @Test("a line that is missing, or there twice, is told by its number, also where all stands in one line")
    func lineMistakes() throws {
        let right = lines(try #require(SlotVectors.load().recovery.last).text)
        for separator in ["\n", "", " "] {
            for line in right.indices {
                var changed = right
                changed.remove(at: line)
                #expect(error(changed.joined(separator: separator)) == .missing(line: line + 1), "\(separator)")
                changed = right
                changed.insert(right[line], at: line)
                #expect(error(changed.joined(separator: separator)) == .doubled(line: line + 1), "\(separator)")
            }
        }
        #expect(error((right + ["0000-0000-0000-0000"]).joined(separator: "\n")) == .lineCount(found: 5))
    }

    @Test("in one line a character that is missing, added or of no recovery key is told by its line")
    func lengthsInOneLine() throws {
        let right = lines(try #require(SlotVectors.load().recovery.last).text)
        for line in right.indices {
            // Not at the end: where the next line begins with the same character, that one lacks it as well.
            for position in [0, 7, 13] {
                var shorter = right.map { Array($0.utf8) }
                shorter[line].remove(at: position)
                #expect(error(shorter.map(\.text).joined()) == .lineLength(line: line + 1, found: 15))
                var longer = right.map { Array($0.utf8) }
                longer[line].insert(longer[line][position] ^ 1, at: position)
                #expect(error(longer.map(\.text).joined()) == .lineLength(line: line + 1, found: 17))
                var strange = right.map { Array($0.utf8) }
                strange[line][position] = UInt8(ascii: "U")
                #expect(error(strange.map(\.text).joined()) == .character(line: line + 1))
            }
        }
    }

    @Test("numbers of the lines, marks of the byte order and hyphens of any kind are passed over")
    func ornaments() throws {
        for vector in SlotVectors.load().recovery {
            let right = lines(vector.text)
            for mark in [".", ")", ":", ". ", ".\t", " ."] {
                let numbered = right.enumerated().map { "\($0 + 1)\(mark)\($1)" }.joined(separator: "\n")
                #expect(try key(numbered) == vector.key, "\(mark)")
                #expect(try key("\u{feff} " + numbered + "\r\n") == vector.key)
            }
            for hyphen in ["\u{2010}", "\u{2011}", "\u{2013}", "\u{2014}", "\u{2212}", "\u{ad}", "\u{a0}", "\u{200b}"] {
                #expect(try key(vector.text.replacingOccurrences(of: "-", with: hyphen)) == vector.key)
            }
        }
        // A point elsewhere is no number's.
        let right = lines(try #require(SlotVectors.load().recovery.last).text)
        #expect(error(right.map { $0 + "." }.joined(separator: "\n")) != nil)
    }

    @Test(
        "other secrets do not read like a recovery key",
        arguments: [
            "", "correct horse battery staple", String(repeating: "A", count: 100_000),
            String(repeating: "4f", count: 32),
            "one line\nanother line\nand a third\nand a fourth", "0009-0014-R1MS-Q4VF",
            String(repeating: "x", count: 48),
        ])
    func otherSecrets(text: String) { #expect(error(text) == .otherText) }
}
