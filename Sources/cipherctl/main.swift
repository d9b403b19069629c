import Foundation
import StorePlatform

// Before anything is opened that could get the number of a standard stream.
InheritedDescriptors.reserveStandardStreams()

exit(Program.run(Array(CommandLine.arguments.dropFirst())).rawValue)
