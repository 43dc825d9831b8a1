#!/usr/bin/perl
# An agent in Perl, with core modules only: TOOLDISPATCHD_SOCKET=PATH perl client.pl, or perl client.pl PATH.
# It lists the tools, makes the calls that the conformance runner asks of an agent, and prints what became of each.
use strict;
use warnings;
use IO::Select;
use IO::Socket::UNIX;
use JSON::PP;
use Time::HiRes qw(time);

# The codes whose retry is "later"; a call that failed with any other is not repeated.
my %later = map { $_ => 1 } qw(server_unavailable queue_full rate_limited too_many draining);
my $path = $ENV{TOOLDISPATCHD_SOCKET} // shift // die "usage: client.pl PATH\n";
my $daemon = IO::Socket::UNIX->new(Peer => $path) or die "cannot connect to $path: $!\n";
my ($bytes, $text) = (JSON::PP->new->utf8, JSON::PP->new->allow_nonref);    # for lines; for a content, which is decoded already
my ($heard, $lines, $made, %calls) = ('', 0, 0);
$SIG{PIPE} = 'IGNORE';
binmode STDOUT, ':utf8';

sub send_line { my (%line) = @_; $daemon->syswrite($bytes->encode(\%line) . "\n") or die "cannot write: $!\n"; return ++$lines }
sub request { my ($call) = @_; $call->{line} = send_line(__port => 'tool_req', map { $_ => $call->{$_} } qw(id name input)) }
sub call {
    my $call = { id => ++$made . '', name => $_[0], input => $_[1], tries => 3 };
    request($calls{ $call->{id} } = $call);
    return $call;
}
# An answer has come. After a failure that may pass the call is made again when it is due.
sub settle {
    my ($call, $content, $fault) = @_;
    my $may_pass = $fault && ($fault->{ran} // '') ne 'maybe' && $later{ $fault->{error} } && --$call->{tries};
    return $call->{due} = time + ($fault->{retry_after_ms} // 1000) / 1000 if $may_pass;
    @$call{qw(content fault is_done)} = ($content, $fault, 1);
}
sub take {
    my ($line) = @_;
    my ($port, $call) = ($line->{__port}, $calls{ $line->{id} // '' });
    if    ($port eq 'ping')  { send_line(__port => 'pong', exists $line->{t} ? (t => $line->{t}) : ()) }
    elsif ($port eq 'tools') { print 'tools: ', join(' ', map { $_->{name} } @{ $line->{tools} }), "\n" }
    elsif ($port eq 'tool_resp' && $call) { settle($call, $line->{content}, $line->{fault} && $text->decode($line->{content})) }
    elsif ($port eq 'fault') {
        print "fault: $line->{error}: $line->{detail}\n";
        settle($_, $line->{detail}, $line) for grep { $_->{line} == $line->{line} } values %calls;    # its id could not be read
    }
    return $port;
}
# Take one line, or make a call again; the port of the line.
sub step {
    my ($next) = sort { $a->{due} <=> $b->{due} } grep { $_->{due} } values %calls;
    return take($bytes->decode($1)) if $heard =~ s/\A(.*)\n//;
    my $pause_s = $next && ($next->{due} > time ? $next->{due} - time : 0);
    if   (IO::Select->new($daemon)->can_read($pause_s)) { $daemon->sysread($heard, 65536, length $heard) or die "the channel ended too early\n" }
    else                                                { delete $next->{due}; request($next) }
    return '';
}
sub outcomes {
    step() while grep { !$_->{is_done} } @_;
    print "$_->{name}: ", $_->{fault} ? $_->{fault}{error} : $_->{content}, "\n" for @_;
    return @_;
}

send_line(__port => 'hello', protocol => [1]);
send_line(__port => 'tools');
my ($first) = outcomes(call('echo', 'a'));
my ($second, $third) = outcomes(call('slow', 'b'), call('echo', 'c'));
my ($failed) = outcomes(call('fails', {}));
outcomes(call('report', { a => $first->{content}, b => $second->{content}, c => $third->{content}, fails => $failed->{fault}{category} }));
send_line(__port => 'bye');
1 until step() eq 'bye';
