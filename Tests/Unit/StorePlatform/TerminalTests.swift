import Foundation
import StorePlatform
import Testing

@Suite("Terminal")
struct TerminalTests {
    @Test("what is no terminal has no columns")
    func noTerminal() throws {
        let file = try FileDescriptor(opening: "/dev/null", .readOnly)
        #expect(!Terminal.isTerminal(file.number))
        #expect(Terminal.columns(of: file.number) == nil)
    }

    @Test("a line typed at a prompt is returned and not shown, and the terminal shows typing again afterwards")
    func noEcho() async {
        await #expect(processExitsWith: .success) {
            // A session of its own, whose terminal this process plays.
            setsid()
            let master = open("/dev/ptmx", O_RDWR | O_NOCTTY)
            // The functions for this are not imported: TIOCGPTN asks for the number, TIOCSPTLCK unlocks.
            var number: Int32 = 0
            var unlocked: Int32 = 0
            guard master >= 0, ioctl(master, 0x8004_5430, &number) == 0, ioctl(master, 0x4004_5431, &unlocked) == 0
            else { exit(2) }
            let slave = open("/dev/pts/\(number)", O_RDWR)
            guard slave >= 0 else { exit(3) }
            let typist = Thread { typeAfterPrompt(master) }
            typist.start()
            let line = try Terminal.readWithoutEcho(prompt: "Key: ")
            guard line.withBytes({ Array($0) }) == Array("secret".utf8) else { exit(4) }
            var settings = termios()
            guard tcgetattr(slave, &settings) == 0, settings.c_lflag & tcflag_t(ECHO) != 0 else { exit(5) }
            guard waitUntil({ typist.isFinished }) else { exit(6) }
            guard drain(master).contains("secret") == false else { exit(7) }
        }
    }

    @Test("without a terminal a prompt is an error at once")
    func withoutTerminal() async {
        await #expect(processExitsWith: .success) {
            setsid()
            do throws(Terminal.Failure) {
                _ = try Terminal.readWithoutEcho(prompt: "Key: ")
                exit(2)
            } catch {
                guard case Terminal.Failure.cannotAsk(let reason) = error, reason.path == "/dev/tty" else { exit(3) }
            }
        }
    }
}

/// Reads the prompt at a terminal's other end, then types a line.
private func typeAfterPrompt(_ master: Int32) {
    var seen: [UInt8] = []
    var byte: UInt8 = 0
    while seen.suffix(5) != Array("Key: ".utf8)[...], read(master, &byte, 1) == 1 { seen.append(byte) }
    let line = Array("secret\n".utf8)
    _ = write(master, line, line.count)
}

/// The output of the terminal up to now.
private func drain(_ master: Int32) -> String {
    var shown: [UInt8] = []
    var request = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
    var byte: UInt8 = 0
    while poll(&request, 1, 50) > 0, read(master, &byte, 1) == 1 { shown.append(byte) }
    return String(decoding: shown, as: UTF8.self)
}
